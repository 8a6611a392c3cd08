// One operation: its figures, its ranks and the parts of a call.

import { element } from "../shapes.js";
import { three, time } from "../spelling.js";
import { changed, pan_rows, show } from "./loading.js";
import { button, detail, HEADING, moment, plural, rank_of, title_of } from "./page.js";
import { source } from "./sources.js";
import { now, state } from "./state.js";

export function picked_is(found) {
  if (!found) return false;
  now.picked = found;
  state.call = found.call;
  describe();
  return true;
}

// Brings the row of a lane into sight.
function reveal(lane) {
  const at = now.rows.findIndex((row) => row.lanes.includes(lane));
  if (at < 0 || state.tall === null || (at >= state.top && at < state.top + state.tall)) return;
  state.top = Math.min(Math.max(at - Math.floor(state.tall / 2), 0), now.rows.length - state.tall);
}

export async function go(which) {
  if (!picked_is(await source.other(which, state.call))) return;
  const ranks = now.picked.ranks ?? [now.picked];
  const from = Math.min(...ranks.map((r) => r.begin_us));
  const to = Math.max(...ranks.map((r) => r.begin_us + r.length_us));
  const room = Math.max(to - from, 2) * 0.6;
  reveal(now.picked.lane);
  show(from - room, to + room);
}

// The same operation, on a row further up or down.
export async function go_rank(by_rows) {
  const parts = now.picked?.ranks ?? now.picked?.same ?? [];
  if (parts.length < 2) return pan_rows(by_rows);
  const place = (r) => now.rows.findIndex((row) => row.lanes.includes(r.lane));
  const order = [...parts].filter((r) => place(r) >= 0).sort((a, b) => place(a) - place(b));
  const other = order[order.findIndex((r) => r.call === now.picked.call) + by_rows];
  if (!other || !picked_is(await source.call(other.call))) return;
  reveal(now.picked.lane);
  changed();
}

// Shows another event.
async function visit(call) {
  if (!picked_is(await source.call(call))) return;
  reveal(now.picked.lane);
  const [from, to] = [now.picked.begin_us, now.picked.begin_us + now.picked.length_us];
  const room = 0.6 * Math.max(to - from, 2);
  if (from < state.from || to > state.to) show(from - room, to + room);
  else changed();
}

export function let_go() {
  now.picked = null;
  state.call = null;
  describe();
  changed();
}

// On which channel an event is, and which way data goes.
function way_of({ channel_id: channel, is_send, peer }) {
  const words = [];
  if (channel !== undefined) words.push(`, channel ${channel}`);
  const does = is_send === 1 || is_send === true ? "sends to" : "receives from";
  if (is_send !== undefined && peer !== undefined) words.push(`, ${does} peer ${peer}`);
  return words.join("");
}

function sentence_of() {
  const { picked } = now;
  const whose = rank_of(picked.lane);
  const who = whose.replace(/^./, (letter) => letter.toUpperCase());
  const took = time(picked.length_us);
  if (picked.kind === "event") return `${who}: an event of NCCL, ${took}${way_of(picked.columns)}.`;
  if (picked.kind === "state")
    return `${who}: a state of an event, from ${moment(picked.begin_us)} for ${took}.`;
  if (picked.kind === "kernel" || picked.kind === "nccl_kernel") {
    const ran = `It ran on the GPU of ${whose} for ${took}, seen in a kernel window.`;
    const { waited_us } = picked;
    if (waited_us === null) return ran;
    return waited_us > 0 ? `${ran} It waited ${time(waited_us)} for the last rank.` : `${ran} It came last.`;
  }
  if (picked.kind === "open")
    return `${who}: not finished when the recording ended, open for ${took} or more.`;
  const on = picked.kind === "gpu" ? "on the GPU" : "in the API call; there is no GPU time";
  if (picked.waited_us === null || picked.ranks_in_all < 2) return `${who}: ${took} ${on}.`;
  const last = picked.ranks.at(-1);
  const transfer = `The transfer took ${time(picked.transfer_us)}.`;
  return last.call === picked.call
    ? `${who} arrived last: ${time(picked.skew_us)} after the first rank. ${transfer}`
    : `${who} waited ${time(picked.waited_us)} for ${rank_of(last.lane)}. ${transfer}`;
}

// Figures of the operation and of this rank in it, with why one is missing.
function figures() {
  const mine = now.picked.ranks.find((r) => r.call === now.picked.call);
  const or = (value, text, why) => (value === null || value === undefined ? why : text(value));
  const alone = now.picked.ranks_in_all < 2;
  const no_wait = alone
    ? "not known: only this rank's call is in the capture"
    : "not known: not every rank has a GPU time, or this operation does not wait for all ranks";
  const bandwidth = (value) => {
    const bus = now.picked.busbw_gb_per_s === null ? "" : `; busbw ${three(now.picked.busbw_gb_per_s)} GB/s`;
    return `${three(value)} GB/s of payload${bus}`;
  };
  return [
    ["Skew, first to last rank", or(now.picked.skew_us, time, no_wait)],
    ["Bandwidth of the transfer", or(now.picked.algbw_gb_per_s, bandwidth, no_wait)],
    ["Exposed on this rank", or(mine.exposed_us, time, "not known: no stream was seen to wait for it")],
    ["Data in the network's hands", or(mine.nic_us, time, "not recorded for this call")],
    ["Error of its times", or(now.picked.error_us, (us) => `± ${time(us)}`, "not known")],
  ];
}

function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) list.append(element("dt", {}, name), element("dd", {}, String(value)));
  return list;
}

function table_of_ranks() {
  const { ranks } = now.picked;
  const longest = ranks[0].length_us;
  const known = ranks.every((r) => r.waited_us !== null);
  const some = (name) => ranks.some((r) => r[name] !== null);
  const or = (value) => (value === null ? "-" : time(value));
  const columns = [
    ["Rank, by arrival", (r) => title_of(r.lane)],
    ["arrived after the first", (r) => (known ? time(longest - r.length_us) : "-")],
    ["waited", (r) => or(r.waited_us)],
    ["GPU time", (r) => (r.is_gpu ? time(r.length_us) : "-")],
    ...(some("exposed_us") ? [["exposed", (r) => or(r.exposed_us)]] : []),
    ...(some("nic_us") ? [["in the network", (r) => or(r.nic_us)]] : []),
  ];
  const heads = columns.map(([head]) => element("th", { scope: "col" }, head));
  const body = element("tbody");
  let before = -1;
  for (const r of ranks) {
    if (r.at > before + 1) {
      const text = `${plural(r.at - before - 1, "rank")} between these`;
      body.append(element("tr", {}, element("td", { colspan: columns.length }, text)));
    }
    before = r.at;
    const cells = columns.map(([, cell]) => element("td", {}, cell(r)));
    const to = button(cells[0].textContent, "Show this rank's call");
    to.addEventListener("click", async () => {
      if (picked_is(await source.call(r.call))) changed();
    });
    cells[0].replaceChildren(to);
    body.append(element("tr", r.call === now.picked.call ? { class: "picked" } : {}, ...cells));
  }
  const table = element("table", { "aria-label": "Ranks by arrival" });
  table.append(element("thead", {}, element("tr", {}, ...heads)), body);
  const frame = { class: "frame", tabindex: "0", role: "region", "aria-label": "Ranks by arrival" };
  return element("div", frame, table);
}

// What is beside an event: its parent, its children, and the same operation on other ranks.
function beside_event() {
  const { parent, children, children_in_all, same, on_gpu } = now.picked;
  const link = (other, text) => {
    const to = button(text, "Show this event");
    to.addEventListener("click", () => visit(other.call));
    return to;
  };
  const named = (other) => link(other, `${other.name}, ${time(other.length_us)}`);
  const list = element("dl", { class: "beside" });
  const put = (name, ...inside) => list.append(element("dt", {}, name), element("dd", {}, ...inside));
  if (parent) put("Parent", named(parent));
  if (children.length > 0) {
    const more = children_in_all - children.length;
    put(
      `Its ${plural(children_in_all, "child", "children")}`,
      ...children.map(named),
      ...(more > 0 ? [`and ${more.toLocaleString("en")} more`] : []),
    );
  }
  if (on_gpu.length > 0) {
    const what = (other) => (other.kind === "gpu" ? "" : "kernel ");
    const text = (other) => `${what(other)}${other.name}, ${time(other.length_us)}`;
    put("On the GPU", ...on_gpu.map((other) => link(other, text(other))));
  }
  if (same.length > 1) {
    const first = Math.min(...same.map((other) => other.begin_us));
    const text = (other) =>
      `${rank_of(other.lane)}: ${time(other.length_us)}, ${time(other.begin_us - first)} after the first`;
    put("The same operation, by rank", ...same.map((other) => link(other, text(other))));
  }
  return list;
}

const PLAIN = {
  finished: (n) => `${n.toLocaleString("en")} finished`,
  steps: (n) => plural(n, "step"),
  bytes_sent: (n) => `${n.toLocaleString("en")} bytes sent`,
  bytes_received: (n) => `${n.toLocaleString("en")} bytes received`,
  sum_us: (us) => `${time(us)} in all`,
};

// A part with more parts than this is closed at first.
const FEW_PARTS = 4;

// The parts of the call as a tree: each with its bar on the call's own time.
function tree_of(parts) {
  const timed = parts.filter((part) => part.begin_us !== undefined);
  const from = Math.min(...timed.map((part) => part.begin_us));
  const to = Math.max(...timed.map((part) => part.begin_us + (part.length_us ?? 0)), from + 1e-3);
  const lists = new Map([[null, element("ul", { class: "tree" })]]);
  const items = new Map();
  for (const part of parts) {
    const words = [];
    if (part.number !== undefined) words.push(part.number.toLocaleString("en"));
    if (part.length_us !== undefined && part.length_us !== null) words.push(time(part.length_us));
    if (part.begin_us !== undefined && part.begin_us > from)
      words.push(`${time(part.begin_us - from)} after the begin`);
    for (const [name, text] of Object.entries(PLAIN)) if (part[name]) words.push(text(part[name]));
    if (part.text) words.push(part.text);
    const name = part.name.replaceAll("_", " ");
    const row = element("span", { class: "part" }, `${name}${words.length ? `: ${words.join(", ")}` : ""}`);
    const item = element("li");
    if (part.begin_us !== undefined) {
      const bar = element("span", { class: "bar-of-part", "aria-hidden": "true" });
      const inside = element("span", part.colour ? { class: part.colour } : {});
      inside.style.left = `${(100 * (part.begin_us - from)) / (to - from)}%`;
      inside.style.width = `${Math.max((100 * (part.length_us ?? 0)) / (to - from), 0.5)}%`;
      bar.append(inside);
      item.append(bar);
    }
    item.append(row);
    const parent = items.has(part.parent) ? part.parent : null;
    if (!lists.has(parent)) lists.set(parent, element("ul"));
    lists.get(parent).append(item);
    items.set(part.part, item);
  }
  for (const [part, list] of lists) {
    if (part === null) continue;
    const item = items.get(part);
    if (list.children.length <= FEW_PARTS) {
      item.append(list);
      continue;
    }
    // What has many parts is closed at first.
    const row = item.querySelector(":scope > .part");
    const details = element("details", {}, element("summary", {}, row), list);
    item.append(details);
  }
  return lists.get(null);
}

function describe() {
  detail.hidden = !now.picked;
  if (!now.picked) return;
  const is_event = now.picked.kind === "event" || now.picked.kind === "state";
  const everything = element(
    "details",
    // Of an event there is nothing shorter.
    is_event ? { open: "" } : {},
    element("summary", {}, "Everything that was recorded of it"),
    facts(Object.entries(now.picked.columns)),
  );
  const inside = [element(HEADING, {}, now.picked.name), element("p", {}, sentence_of())];
  if (now.picked.ranks) inside.push(facts(figures()), table_of_ranks());
  if (is_event) inside.push(beside_event());
  if (now.picked.parts?.length) {
    const heading = element(HEADING, {}, `The parts of the call on ${rank_of(now.picked.lane)}`);
    inside.push(heading, tree_of(now.picked.parts));
  }
  detail.replaceChildren(...inside, everything);
}
