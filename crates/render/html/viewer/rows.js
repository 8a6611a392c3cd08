// What is shown, and the rows of the picture that it makes.

const state = {
  from: 0,
  to: whole,
  top: 0,
  // How many rows are seen; null is all.
  tall: null,
  sort: false,
  kernels: true,
  events: false,
  // Types of events that are not shown.
  hidden: new Set(),
  by: "communicator",
  group: "",
  words: "",
  call: null,
};
let picked = null;
let pointed = null;

// What is shown first: the typical step, with some of what is around it; else the whole run.
function opening() {
  if (!data.typical) return [0, whole];
  const { from_us, to_us } = data.typical;
  const around = (to_us - from_us) / 20;
  return [from_us - around, to_us + around];
}

function read_address() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name, otherwise) =>
    asked.has(name) && Number.isFinite(+asked.get(name)) ? +asked.get(name) : otherwise;
  const one_of = (name, select) =>
    [...select.options].map((o) => o.value).find((value) => value === asked.get(name));
  const [first, last] = asked.has("from") ? [0, whole] : opening();
  state.from = Math.max(0, number("from", first));
  state.to = Math.min(whole, number("to", last));
  if (!(state.to > state.from)) [state.from, state.to] = [0, whole];
  state.top = Math.max(0, Math.floor(number("top", 0)));
  state.tall = asked.has("tall") ? Math.max(1, Math.floor(number("tall", 1))) : null;
  state.sort = asked.get("sort") === "late";
  state.kernels = asked.get("kernels") !== "off";
  state.events = asked.get("events") === "on";
  state.hidden = new Set((asked.get("hide") ?? "").split(",").filter((type) => type_buttons.has(type)));
  state.by = one_of("by", by.select) ?? "communicator";
  state.group = one_of("group", group.select) ?? "";
  state.words = asked.get("ranks") ?? "";
  state.call = asked.has("call") ? number("call", null) : null;
}

function write_address() {
  const parts = { from: state.from.toFixed(3), to: state.to.toFixed(3) };
  if (state.tall !== null) [parts.top, parts.tall] = [state.top, state.tall];
  if (state.sort) parts.sort = "late";
  if (!state.kernels) parts.kernels = "off";
  if (state.events) parts.events = "on";
  if (state.hidden.size > 0) parts.hide = [...state.hidden].join(",");
  if (state.by !== "communicator") parts.by = state.by;
  if (state.group) parts.group = state.group;
  if (state.words) parts.ranks = state.words;
  if (state.call !== null) parts.call = state.call;
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
}

// ---- rows

// What lanes of a row have in common.
const KEY = {
  communicator: (lane, at) => (lane.events ? at : `${lane.who} ${lane.kernels} ${lane.role}`),
  stream: (lane, at) => (lane.stream ? `${lane.who} ${lane.kernels} ${lane.stream}` : at),
  thread: (lane, at) => (lane.thread ? `${lane.who} ${lane.thread}` : at),
  rank: (lane, at) => (lane.events ? at : `${lane.who} ${lane.kernels}`),
};
const ROLE = {
  communicator: (lane) => lane.role,
  stream: (lane) => (lane.stream ? `${lane.kernels ? "kernels, " : ""}stream ${lane.stream}` : lane.role),
  thread: (lane) => (lane.thread ? `thread ${lane.thread}` : lane.role),
  rank: (lane) => (lane.events ? lane.role : lane.kernels ? "kernels" : ""),
};

// The title of a row whose events lie in those of the row above.
const deeper = (lane) => `${"\u2003".repeat(lane.depth)}\u21b3 ${lane.types.join(", ")}`;

// Rows from top to bottom: lanes with a title, and headings of groups, which have none.
function made_rows() {
  // Any of these, each as it stands: `rank 1` is not rank 12.
  const wanted = state.words
    .toLowerCase()
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => new RegExp(`(?<!\\w)${part.replace(/[^\w ]/g, "\\$&")}(?!\\d)`));
  const rows = new Map();
  data.lanes.forEach((lane, at) => {
    if ((lane.kernels && !state.kernels) || (lane.events && !state.events)) return;
    if (lane.events && lane.types.every((type) => state.hidden.has(type))) return;
    const text = `${lane.who}: ${lane.role} ${lane.host}`.toLowerCase();
    if (wanted.length && !wanted.some((part) => part.test(text))) return;
    const key = KEY[state.by](lane, at);
    const row = rows.get(key);
    if (!row) {
      const role = ROLE[state.by](lane);
      rows.set(key, {
        lanes: [at],
        who: lane.who,
        title: lane.depth > 0 ? deeper(lane) : role ? `${lane.who}: ${role}` : lane.who,
        // Neither waits for anybody.
        is_kernels: lane.kernels || lane.events,
        is_events: lane.events,
        depth: lane.depth,
        waited: lane.waited_us,
        host: lane.host,
        role: lane.kernels ? "kernels" : lane.events ? "events" : lane.role,
        ended: lane.kernels || lane.events ? null : lane.ended,
      });
      return;
    }
    row.lanes.push(at);
    row.waited += lane.waited_us;
    if (row.role !== lane.role && !row.is_kernels) row.role = "several communicators";
  });
  const all = [...rows.values()];
  if (state.sort) {
    // Kernels stay below the calls of their rank.
    const least = new Map();
    for (const row of all)
      if (!row.is_kernels) least.set(row.who, Math.min(row.waited, least.get(row.who) ?? Infinity));
    const waited = (row) => (row.is_kernels ? (least.get(row.who) ?? Infinity) : row.waited);
    all.sort((a, b) => waited(a) - waited(b) || a.lanes[0] - b.lanes[0]);
  }
  if (!state.group) return all;
  const of = (row) => (state.group === "host" ? row.host : row.role);
  const groups = Map.groupBy
    ? Map.groupBy(all, of)
    : all.reduce((m, row) => m.set(of(row), [...(m.get(of(row)) ?? []), row]), new Map());
  return [...groups].flatMap(([title, of_group]) => [{ lanes: [], title, heading: true }, ...of_group]);
}

let rows = [];
let rows_number = 0;
function lay_rows() {
  rows = made_rows();
  rows_number += 1;
  if (state.tall !== null && state.tall >= rows.length) state.tall = null;
  state.top = state.tall === null ? 0 : Math.min(state.top, rows.length - state.tall);
}
const shown_rows = () => (state.tall === null ? rows : rows.slice(state.top, state.top + state.tall));
