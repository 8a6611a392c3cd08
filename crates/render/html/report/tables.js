// Makes the tables of the page sortable and, where they are long, filterable.
//
// A table names the rows of the report that it shows (`data-rows`), each row its number (`data-i`), and a
// column the field that it sorts by (`data-path`). So figures sort by their value, and not by how they are
// rounded. Columns without one sort by their text, and counts by name by their sum. What is missing stands
// last in either direction.

import { report } from "./data.js";

const FILTER_FROM = 12;

const get = (value, path) => path.split(".").reduce((at, name) => at?.[name], value) ?? null;

function key(value) {
  if (value === null || typeof value !== "object") return value;
  return Object.values(value).reduce((sum, n) => sum + n, 0) || null;
}

const collator = new Intl.Collator("en", { numeric: true });
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(a, b));

function sort(table, column, direction) {
  const heads = [...table.tHead.rows[0].cells];
  const path = heads[column].dataset.path;
  const source = get(report, table.dataset.rows);
  const value = (row) => {
    if (path) return key(get(source[row.dataset.i], path));
    const cell = row.cells[column];
    return cell.querySelector(".none") ? null : cell.textContent;
  };
  const keyed = (row) => ({ row, value: value(row), i: Number(row.dataset.i) });
  const rows = [...table.tBodies[0].rows].map(keyed);
  rows.sort((a, b) => {
    if (a.value === null || b.value === null) return (a.value === null) - (b.value === null) || a.i - b.i;
    return direction * compare(a.value, b.value) || a.i - b.i;
  });
  table.tBodies[0].append(...rows.map(({ row }) => row));
  for (const head of heads) head.removeAttribute("aria-sort");
  heads[column].setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
}

function sortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const text = head.classList.contains("t");
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      // Names begin at A, figures with the largest.
      const first = text ? 1 : -1;
      const direction = now === null ? first : now === "ascending" ? -1 : 1;
      sort(table, column, direction);
    });
  });
}

function filterable(table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FILTER_FROM) return;
  const bar = document.createElement("div");
  bar.className = "filter";
  const input = document.createElement("input");
  input.type = "search";
  input.placeholder = "Filter: words that a row must have";
  input.setAttribute("aria-label", `Filter the rows of: ${table.getAttribute("aria-label")}`);
  const count = document.createElement("output");
  bar.append(input, count);
  const frame = table.closest(".frame");
  frame.before(bar);
  const texts = rows.map((row) =>
    [...row.cells]
      .map((cell) => cell.textContent)
      .join(" ")
      .toLowerCase(),
  );
  const apply = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      row.hidden = !words.every((word) => texts[at].includes(word));
      shown += !row.hidden;
    });
    // The foot is of all rows.
    if (table.tFoot) table.tFoot.hidden = shown < rows.length;
    count.textContent = shown === rows.length ? `${rows.length} rows` : `${shown} of ${rows.length} rows`;
  };
  input.addEventListener("input", apply);
  apply();
}

for (const table of document.querySelectorAll("table[data-rows]")) {
  filterable(table);
  sortable(table);
}
