// Packs lanes into the rows of the picture: by communicator, stream, thread or rank. It knows nothing of a
// page.

// What lanes of a row have in common.
export const KEY = {
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
export function packed_rows(lanes, state) {
  // Any of these, each as it stands: `rank 1` is not rank 12.
  const wanted = state.words
    .toLowerCase()
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean)
    .map((part) => new RegExp(`(?<!\\w)${part.replace(/[^\w ]/g, "\\$&")}(?!\\d)`));
  const rows = new Map();
  lanes.forEach((lane, at) => {
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
        short: `${lane.who}${lane.events ? " E" : lane.kernels ? " K" : ""}`,
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
  // Rows that differ have names that differ, also on a phone.
  for (const name of ["title", "short"]) {
    const seen = new Map();
    for (const row of all.filter((row) => !row.depth)) {
      const count = (seen.get(row[name]) ?? 0) + 1;
      seen.set(row[name], count);
      if (count > 1) row[name] = `${row[name]} (${count})`;
    }
  }
  if (state.sort) {
    // Kernels stay below the calls of their rank.
    const [least, in_kernels] = [new Map(), new Map()];
    for (const row of all) {
      if (row.is_kernels) in_kernels.set(row.who, (in_kernels.get(row.who) ?? 0) + row.waited);
      else least.set(row.who, Math.min(row.waited, least.get(row.who) ?? Infinity));
    }
    const of_calls = (row) => (row.is_kernels ? (least.get(row.who) ?? Infinity) : row.waited);
    // Calls in graphs have no times, and their kernels do.
    const waited = (row) => of_calls(row) + (in_kernels.get(row.who) ?? 0);
    all.sort((a, b) => waited(a) - waited(b) || a.lanes[0] - b.lanes[0]);
  }
  if (!state.group) return all;
  const of = (row) => (state.group === "host" ? row.host : row.role);
  const groups = Map.groupBy
    ? Map.groupBy(all, of)
    : all.reduce((m, row) => m.set(of(row), [...(m.get(of(row)) ?? []), row]), new Map());
  return [...groups].flatMap(([title, of_group]) => [{ lanes: [], title, heading: true }, ...of_group]);
}
