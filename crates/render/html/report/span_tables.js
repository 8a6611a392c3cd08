// The tables that follow a span of the run over time.

import { element } from "../shapes.js";
import { span_words } from "./buckets.js";
import { active, report } from "./data.js";
import { has } from "./selection.js";

// By array of the report: whether a row of it has calls in the span.
const some_operation = (is, span) =>
  report.operations.some((o, i) => is(o) && has(active.operations[i], span));
const FOLLOWS = {
  operations: (i, span) => has(active.operations[i], span),
  "ranks.rows": (i, span) => has(active.ranks[i], span),
  functions: (i, span) => some_operation((o) => o.function === report.functions[i].function, span),
  communicators: (i, span) =>
    some_operation((o) => o.communicator === report.communicators[i].communicator, span),
};
const tables = [...document.querySelectorAll("table[data-rows]")].map((table) => {
  const note = element("p", { class: "span-note" });
  note.hidden = true;
  const frame = table.closest(".frame");
  frame.before(note);
  return {
    rows: [...table.tBodies[0].rows],
    follows: FOLLOWS[table.dataset.rows],
    foot: table.tFoot,
    note,
  };
});

export function filter_tables(span) {
  for (const { rows, follows, foot, note } of tables) {
    note.hidden = !span;
    let shown = 0;
    for (const row of rows) {
      const is_out = Boolean(span && follows && !follows(Number(row.dataset.i), span));
      row.classList.toggle("out-of-span", is_out);
      shown += !is_out;
    }
    // The foot is of all rows.
    foot?.classList.toggle("out-of-span", shown < rows.length);
    if (!span) continue;
    note.textContent = follows
      ? `${shown} of ${rows.length} rows have calls from ${span_words(span)}. ` +
        "Their figures are of the whole run."
      : `This table is of the whole run: it does not follow the span that is selected.`;
  }
  const operations = span && report.operations.flatMap((_, i) => (FOLLOWS.operations(i, span) ? [i] : []));
  document.dispatchEvent(new CustomEvent("ncclscope-span", { detail: operations }));
}
