// The viewer: lanes of ranks over time, from the whole run down to one operation.
//
// Figures come from a source: the server of `ncclscope view`, or what is embedded in a report. Both answer
// the same questions. A heat map comes as bytes: for each lane and bin the shares of waiting, transfer and
// the rest. Calls of a span come one by one once they are few enough, and are drawn over it. Lanes are put
// together to rows here: by communicator, stream, thread or rank. What is shown is in the address after `#`,
// so a link leads to the same place.

const root = document.getElementById("viewer");
const kept = document.getElementById("viewer-data");

// ---- where figures come from

// So many calls are drawn one by one.
const MOST_CALLS = 20000;

function served() {
  const ask = (path, lanes) => fetch(path, { method: "POST", body: JSON.stringify(lanes) });
  const json = async (path) => {
    const answer = await fetch(path);
    return answer.ok ? answer.json() : null;
  };
  return {
    is_whole: true,
    data: () => json("data.json"),
    async heat(lanes, from, to, bins) {
      const answer = await ask(`heat?from=${from}&to=${to}&bins=${bins}`, lanes);
      const bytes = await answer.arrayBuffer();
      const head = new DataView(bytes);
      return {
        begin: head.getFloat64(0, true),
        width: head.getFloat64(8, true),
        bins: head.getUint32(16, true),
        cells: new Uint8Array(bytes, 24),
      };
    },
    async calls(lanes, from, to) {
      const found = await (await ask(`calls?from=${from}&to=${to}`, lanes)).json();
      return { ...found, covered: found.too_many ? [] : [[from, to]] };
    },
    call: (call) => json(`call?call=${call}`),
    other: (which, call) => json(call === null ? which : `${which}?call=${call}`),
  };
}

function embedded(text) {
  const file = JSON.parse(text);
  async function inflated(base64) {
    const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Response(stream).arrayBuffer();
  }
  const parsed = async (base64) => JSON.parse(new TextDecoder().decode(await inflated(base64)));
  const cells = (level) => (level.cells ??= inflated(level.deflate).then((b) => new Uint8Array(b)));
  const inside = (chunk) => (chunk.inside ??= parsed(chunk.deflate));
  // By width, the finest last.
  const { levels, chunks, worst } = file;
  const length = levels[0].width_us * levels[0].bins;
  async function row_of(call) {
    for (const chunk of chunks) {
      const found = await inside(chunk);
      if (call in found.more) return { found, row: found.calls.find((c) => c[0] === call) };
    }
    return null;
  }
  async function whole_of(call) {
    const at = await row_of(call);
    if (!at) return null;
    const [, lane, begin_us, length_us, transfer, name, kind, operation, error_us] = at.row;
    return {
      call,
      name: data.names[name],
      lane,
      kind,
      begin_us,
      length_us,
      waited_us: transfer === null ? null : length_us - transfer,
      operation,
      error_us,
      ...at.found.operations[operation ?? `call ${call}`],
      ...at.found.more[call],
    };
  }
  return {
    is_whole: file.whole,
    data: () => parsed(file.data),
    async heat(lanes, from, to, bins) {
      const enough = (level) => (to - from) / level.width_us >= bins;
      const level = levels.find(enough) ?? levels[levels.length - 1];
      const all = await cells(level);
      const first = Math.max(Math.floor(from / level.width_us), 0);
      const last = Math.min(Math.floor(to / level.width_us) + 1, level.bins);
      const wide = 3 * (last - first);
      const found = new Uint8Array(wide * lanes.length);
      lanes.forEach((lane, at) => {
        const begin = 3 * (lane * level.bins + first);
        found.set(all.subarray(begin, begin + wide), at * wide);
      });
      return { begin: first * level.width_us, width: level.width_us, bins: last - first, cells: found };
    },
    async calls(lanes, from, to) {
      const wanted = new Set(lanes);
      const there = chunks.filter((chunk) => chunk.from_us < to && chunk.to_us > from);
      const rows = new Map();
      for (const chunk of there) {
        for (const row of (await inside(chunk)).calls) {
          if (wanted.has(row[1]) && row[2] <= to && row[2] + row[3] >= from) rows.set(row[0], row);
        }
        if (rows.size > MOST_CALLS) return { too_many: true, calls: [], covered: [] };
      }
      // The first span reaches to the begin, and the last to the end.
      const covered = file.whole ? [[0, length]] : there.map((chunk) => [chunk.from_us, chunk.to_us]);
      return { too_many: false, calls: [...rows.values()].sort((a, b) => a[0] - b[0]), covered };
    },
    call: whole_of,
    async other(which, call) {
      if (which === "worst") {
        const next = (worst.indexOf(call) + 1) % Math.max(worst.length, 1);
        return worst.length ? whole_of(worst[next]) : null;
      }
      const from = (await row_of(call))?.row;
      if (!from) return null;
      const all = (await Promise.all(chunks.map(inside))).flatMap((found) =>
        found.calls.filter((c) => c[1] === from[1] && c[5] === from[5] && c[0] in found.more),
      );
      const numbers = all.map((c) => c[0]).sort((a, b) => a - b);
      const at = numbers.indexOf(call) + (which === "next" ? 1 : -1);
      return numbers[at] === undefined ? null : whole_of(numbers[at]);
    },
  };
}

const source = kept ? embedded(kept.textContent) : served();
const data = await source.data();
const whole = data.length_us;

// ---- words

// Moments are in the unit of the whole run, with as many digits as tell a thousandth of what is seen apart.
const [moment_unit, moment_by] = whole >= 2e6 ? ["s", 1e6] : whole >= 2e3 ? ["ms", 1e3] : ["µs", 1];
function moment(us, apart = (state.to - state.from) / 1000) {
  const digits = Math.min(Math.max(0, -Math.floor(Math.log10(apart / moment_by) + 1e-9)), 9);
  return `${(us / moment_by).toFixed(us ? digits : 0)} ${moment_unit}`;
}
const rank_of = (lane) => data.lanes[lane].who;
const title_of = (lane) => `${data.lanes[lane].who}: ${data.lanes[lane].role}`;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;

// ---- the page's elements

// In a report the viewer has a heading of its own.
const HEADING = kept ? "h3" : "h2";
const has_kernels = data.lanes.some((lane) => lane.kernels);
const has_events = data.lanes.some((lane) => lane.events);
const button = (text, title, more = {}) => element("button", { type: "button", title, ...more }, text);
function chooser(label, title, options) {
  const select = element("select", { title });
  for (const [value, text] of options) select.append(element("option", { value }, text));
  return { select, label: element("label", {}, label, select) };
}
const buttons = {
  fit: button("Whole run", "Show the whole run (0)"),
  in: button("+", "Zoom in (+)", { "aria-label": "Zoom in" }),
  out: button("\u2212", "Zoom out (-)", { "aria-label": "Zoom out" }),
  worst: button("Longest wait", "The call that waited longest, then the next (w)"),
  sort: button("Late ranks first", "Ranks that wait least come first: the others wait for them (s)", {
    "aria-pressed": "false",
  }),
  kernels: button("Kernels", "Show what ran in kernel windows (k)", { "aria-pressed": "true" }),
  events: button("Events", "Show every event that NCCL told the profiler of (e)", {
    "aria-pressed": "false",
  }),
};
const by = chooser("A row per ", "What a row of the picture is", [
  ["communicator", "communicator"],
  ["stream", "stream"],
  ["thread", "thread"],
  ["rank", "rank"],
]);
const group = chooser("Groups ", "Put rows together", [
  ["", "none"],
  ["host", "by host"],
  ["communicator", "by communicator"],
]);
const search = element("input", {
  type: "search",
  placeholder: "rank 3, rank 7",
  title: "Show rows with any of these in their names (/)",
});
const canvas = element("canvas", {
  tabindex: "0",
  role: "img",
  "aria-label": "Ranks from top to bottom over time: orange is waiting. Keys are listed below.",
});
const context = canvas.getContext("2d");
const tip = element("div", { class: "tip", role: "status" });
tip.hidden = true;
const where = element("p", { class: "where", role: "status" });
const findings = element("div", { class: "findings" });
const path = element("div", { class: "findings" });
// Segments of the critical path that are listed.
const MOST_SEGMENTS = 50;
const detail = element("div", { class: "one-call", "aria-live": "polite" });
detail.hidden = true;

const KEYS = [
  ["wait", "waiting for the last rank"],
  ["transfer", "transfer"],
  ["other", "in NCCL, waiting not known"],
  ["host", "no GPU time: the API call"],
  ["open", "not finished at the end"],
  ...(has_kernels ? [["kernel", "compute kernel, in a kernel window"]] : []),
  ...(has_events ? [["event", "event of NCCL, with its states"]] : []),
];
const legend = element(
  "ul",
  { class: "legend", "aria-label": "Colours" },
  ...KEYS.map(([name, text]) => element("li", {}, element("span", { class: name }), text)),
  element("li", {}, element("span", { class: "last" }), "last to arrive"),
  element("li", {}, element("span", { class: "whisker" }), "error of the clock"),
  ...(data.path ? [element("li", {}, element("span", { class: "on-path" }), "critical path of a step")] : []),
);
const hint = element(
  "p",
  { class: "hint" },
  "Wheel or + and \u2212 zoom, drag or arrow keys move, Shift and drag zooms into a span. Click a call to " +
    "mark it on every rank; up and down go to another rank of it, n and p to the next and the previous of " +
    "its kind, w to the longest wait, / searches, Escape lets go, 0 shows the whole run.",
);
root.append(
  element(
    "div",
    { class: "bar", role: "group", "aria-label": "View" },
    buttons.fit,
    buttons.in,
    buttons.out,
    buttons.worst,
    buttons.sort,
    ...(has_kernels ? [buttons.kernels] : []),
    ...(has_events ? [buttons.events] : []),
    by.label,
    group.label,
    element("label", {}, "Ranks ", search),
  ),
  where,
  element("div", { class: "drawing" }, canvas, tip),
  legend,
  hint,
  findings,
  path,
  detail,
);

// ---- what is shown

const state = {
  from: 0,
  to: whole,
  top: 0,
  // How many rows are seen; null is all.
  tall: null,
  sort: false,
  kernels: true,
  events: false,
  by: "communicator",
  group: "",
  words: "",
  call: null,
};
let picked = null;
let pointed = null;

function read_address() {
  const asked = new URLSearchParams(location.hash.slice(1));
  if (!asked.has("from") && kept) return;
  const number = (name, otherwise) =>
    asked.has(name) && Number.isFinite(+asked.get(name)) ? +asked.get(name) : otherwise;
  const one_of = (name, select) =>
    [...select.options].map((o) => o.value).find((value) => value === asked.get(name));
  state.from = Math.max(0, number("from", 0));
  state.to = Math.min(whole, number("to", whole));
  if (!(state.to > state.from)) [state.from, state.to] = [0, whole];
  state.top = Math.max(0, Math.floor(number("top", 0)));
  state.tall = asked.has("tall") ? Math.max(1, Math.floor(number("tall", 1))) : null;
  state.sort = asked.get("sort") === "late";
  state.kernels = asked.get("kernels") !== "off";
  state.events = asked.get("events") === "on";
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
    const text = `${lane.who}: ${lane.role} ${lane.host}`.toLowerCase();
    if (wanted.length && !wanted.some((part) => part.test(text))) return;
    const key = KEY[state.by](lane, at);
    const row = rows.get(key);
    if (!row) {
      const role = ROLE[state.by](lane);
      rows.set(key, {
        lanes: [at],
        who: lane.who,
        title: role ? `${lane.who}: ${role}` : lane.who,
        // Neither waits for anybody.
        is_kernels: lane.kernels || lane.events,
        is_events: lane.events,
        waited: lane.waited_us,
        host: lane.host,
        role: lane.kernels ? "kernels" : lane.events ? "events" : lane.role,
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

// ---- asking

let asked = 0;
// What was loaded last, for which rows and span.
let loaded = null;
let timer = null;

function needs_loading() {
  if (!loaded || loaded.number !== rows_number) return true;
  if (loaded.top !== state.top || loaded.tall !== state.tall) return true;
  const length = state.to - state.from;
  if (state.from < loaded.from - 1e-6 || state.to > loaded.to + 1e-6) return true;
  return length < 0.7 * loaded.length || length > 1.5 * loaded.length;
}

async function load() {
  const number = ++asked;
  const seen = shown_rows();
  const lanes = seen.flatMap((row) => row.lanes);
  const length = state.to - state.from;
  // A margin, so that the picture can be moved meanwhile.
  const [from, to] = [Math.max(state.from - length / 2, 0), Math.min(state.to + length / 2, whole)];
  const wide = Math.max(layout().width, 1);
  const is_of = { number: rows_number, top: state.top, tall: state.tall, from, to, length };
  const [view_from, view_to] = [state.from, state.to];
  const [heat, around] = await Promise.all([
    source.heat(lanes, from, to, Math.ceil((wide * (to - from)) / length)),
    source.calls(lanes, from, to),
  ]);
  let calls = around;
  if (around.too_many && number === asked) {
    calls = await source.calls(lanes, view_from, view_to);
    if (!calls.too_many) [is_of.from, is_of.to] = [view_from, view_to];
  }
  // A newer question is under way.
  if (number !== asked) return;
  loaded = {
    ...is_of,
    heat,
    lanes,
    rows: seen,
    covered: calls.covered,
    calls: calls.calls.map(([call, lane, begin, length, transfer, name, kind, operation, error]) => ({
      call,
      lane,
      begin,
      length,
      transfer,
      name,
      kind,
      operation,
      error,
    })),
  };
  mix_rows();
  const is_known = calls.covered.some(([a, b]) => a < state.to && b > state.from);
  canvas.dataset.calls = is_known ? String(loaded.calls.length) : "too many";
  canvas.dataset.ready = String(number);
  draw();
}

function load_soon() {
  if (timer !== null || !needs_loading()) return;
  timer = setTimeout(() => {
    timer = null;
    load().then(load_soon);
  }, 40);
}

let frame = null;
function draw_soon() {
  frame ??= requestAnimationFrame(() => {
    frame = null;
    draw();
  });
}

function changed() {
  write_address();
  draw_soon();
  load_soon();
}

function rearranged() {
  lay_rows();
  changed();
}

function show(from, to) {
  const length = Math.min(Math.max(to - from, 0.5), whole);
  const middle = (from + to) / 2;
  state.from = Math.min(Math.max(middle - length / 2, 0), whole - length);
  state.to = state.from + length;
  changed();
}

// Shows some rows more or less, around a row.
function show_rows(count, around) {
  const tall = Math.max(1, Math.round(count));
  if (tall >= rows.length) {
    state.tall = null;
    state.top = 0;
    return;
  }
  const before = (around - state.top) / (state.tall ?? rows.length);
  state.tall = tall;
  state.top = Math.min(Math.max(Math.round(around - before * tall), 0), rows.length - tall);
}

// So tall is a row that can be told from others.
const READABLE = 14;

function zoom(factor, at = (state.from + state.to) / 2, row = null) {
  const area = layout().area;
  const now = state.tall ?? rows.length;
  const readable = Math.max(1, Math.floor(area / READABLE));
  // Rows that are too thin grow with the time, until they can be read.
  if (factor > 1 && now > readable) show_rows(Math.max(now / factor, readable), row ?? state.top + now / 2);
  else if (factor < 1 && state.tall !== null) show_rows(now / factor, row ?? state.top + now / 2);
  show(at - (at - state.from) / factor, at + (state.to - at) / factor);
}
const pan = (share) => {
  const distance = share * (state.to - state.from);
  show(state.from + distance, state.to + distance);
};
function pan_rows(count) {
  if (state.tall === null) return;
  state.top = Math.min(Math.max(state.top + count, 0), rows.length - state.tall);
  changed();
}
function show_all() {
  [state.top, state.tall] = [0, null];
  show(0, whole);
}

// ---- heat: from lanes and bins to rows of pixels

// Chooses what a row of pixels shows if it stands for several rows: in each bin, of those with most time in
// NCCL, the one that waits least. So a rank that the others wait for is seen among thousands.
function mix_rows() {
  const { heat, rows: seen } = loaded;
  const { bins, cells } = heat;
  const tall = Math.max(1, Math.min(seen.length, Math.round(layout().area)));
  const place = new Map(loaded.lanes.map((lane, at) => [lane, at]));
  // For each row of pixels and bin: waiting, transfer, the rest, kernels that compute.
  const mixed = new Uint8Array(tall * bins * 4);
  const sums = new Uint16Array(bins * 4);
  const best = new Float32Array(bins);
  const most = new Uint16Array(bins);
  const waiting = new Float32Array(bins);
  const add = (row) => {
    sums.fill(0);
    for (const lane of row.lanes) {
      const begin = 3 * bins * place.get(lane);
      const rest = row.is_kernels ? 3 : 2;
      for (let bin = 0, at = begin, to = 0; bin < bins; bin++, at += 3, to += 4) {
        sums[to] += cells[at];
        sums[to + 1] += cells[at + 1];
        sums[to + rest] += cells[at + 2];
      }
    }
  };
  for (let p = 0; p < tall; p++) {
    const [first, last] = [Math.floor((p * seen.length) / tall), Math.floor(((p + 1) * seen.length) / tall)];
    const out = mixed.subarray(p * bins * 4, (p + 1) * bins * 4);
    best.fill(2);
    most.fill(0);
    for (let row = first; row < last; row++) {
      if (!seen[row].lanes.length) continue;
      add(seen[row]);
      for (let bin = 0, i = 0; bin < bins; bin++, i += 4) {
        const total = sums[i] + sums[i + 1] + sums[i + 2] + sums[i + 3];
        if (!total) continue;
        const share = sums[i] / total;
        const is_more = total > 2 * most[bin];
        if (!is_more && (2 * total < most[bin] || share >= best[bin])) continue;
        best[bin] = share;
        most[bin] = Math.max(most[bin], total);
        for (let k = 0; k < 4; k++) out[i + k] = Math.min(sums[i + k], 255);
      }
    }
  }
  // How many ranks wait.
  const by_rank = new Map();
  for (const row of seen)
    if (!row.is_kernels && row.lanes.length)
      by_rank.set(row.who, [...(by_rank.get(row.who) ?? []), ...row.lanes]);
  for (const lanes of by_rank.values()) {
    for (let bin = 0; bin < bins; bin++) {
      let sum = 0;
      for (const lane of lanes) sum += cells[3 * (bins * place.get(lane) + bin)];
      waiting[bin] += Math.min(sum, 255) / 255;
    }
  }
  loaded.mixed = mixed;
  loaded.tall_px = tall;
  loaded.waiting = waiting;
  loaded.ranks = by_rank.size;
  paint_heat();
}

function paint_heat() {
  const { mixed, tall_px, heat } = loaded;
  const colours = palette();
  const [card, ...inks] = ["card", "wait", "transfer", "other", "kernel"].map((name) => rgb(colours[name]));
  const image = document.createElement("canvas");
  image.width = Math.max(heat.bins, 1);
  image.height = tall_px;
  const on = image.getContext("2d");
  const pixels = on.createImageData(image.width, image.height);
  const into = new Uint32Array(pixels.data.buffer);
  const from = new Uint32Array(mixed.buffer);
  let [before, colour] = [-1, 0];
  for (let i = 0; i < from.length; i++) {
    if (from[i] !== before) {
      before = from[i];
      const shares = [0, 1, 2, 3].map((k) => mixed[4 * i + k] / 255);
      const sum = shares.reduce((a, b) => a + b, 0);
      const by = sum > 1 ? 1 / sum : 1;
      const [r, g, b] = [0, 1, 2].map((c) =>
        Math.round(
          inks.reduce((all, ink, k) => all + ink[c] * shares[k] * by, card[c] * Math.max(1 - sum, 0)),
        ),
      );
      colour = (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
    }
    into[i] = colour;
  }
  on.putImageData(pixels, 0, 0);
  loaded.image = image;
}

// ---- drawing

const STRIP = 30;
const WAITERS = 34;
const AXIS = 26;

function layout() {
  const wide = canvas.clientWidth;
  const seen = state.tall ?? rows.length;
  const left = wide < 600 ? 76 : 190;
  const most = Math.max(200, Math.min(innerHeight * 0.62, 720) - STRIP - WAITERS - AXIS);
  const area = state.tall === null ? Math.max(Math.min(40 * seen, most), 20) : most;
  const top = STRIP + WAITERS;
  const bottom = top + area;
  return {
    left,
    right: wide - 6,
    width: wide - 6 - left,
    top,
    bottom,
    area,
    each: area / Math.max(seen, 1),
    height: Math.ceil(bottom + AXIS),
    wide,
  };
}

const GROUND = ["card", "text", "soft", "line", "bad", "ink"];
const NAMES = [...GROUND, "wait", "transfer", "other", "host", "kernel", "event"];
const palette = () => {
  const style = getComputedStyle(root);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
};
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function hatching(line) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const on = tile.getContext("2d");
  on.strokeStyle = line;
  on.lineWidth = 1.5;
  on.beginPath();
  on.moveTo(-1, 7);
  on.lineTo(7, -1);
  on.stroke();
  return context.createPattern(tile, "repeat");
}

let last_layout = null;
function draw() {
  const at = (last_layout = layout());
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(at.wide * scale) || canvas.height !== Math.round(at.height * scale)) {
    canvas.width = Math.round(at.wide * scale);
    canvas.height = Math.round(at.height * scale);
    canvas.style.height = `${at.height}px`;
  }
  canvas.dataset.lanes = state.tall ?? rows.length;
  canvas.dataset.place = `${at.left} ${at.top} ${at.bottom}`;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const colours = palette();
  context.fillStyle = colours.card;
  context.fillRect(0, 0, at.wide, at.height);
  const x = (us) => at.left + (at.width * (us - state.from)) / (state.to - state.from);
  const is_current = loaded?.number === rows_number;
  if (is_current) {
    draw_heat(at, x, colours);
    draw_waiters(at, x, colours);
  }
  draw_axis(at, x, colours);
  if (is_current) draw_calls(at, x, colours);
  draw_path(at, x, colours);
  draw_names(at, colours);
  draw_strip(at, x, colours);
  if (pointed?.x !== undefined) {
    context.strokeStyle = colours.soft;
    context.strokeRect(pointed.x, at.top, 0, at.bottom - at.top);
  }
  say_where();
}

function say_where() {
  const lanes = rows.filter((row) => !row.heading).length;
  const seen = data.lanes.filter((lane) => !lane.events || state.events);
  const all = new Set(seen.map(KEY.communicator)).size;
  const is_all = state.from <= 0 && state.to >= whole;
  const span = is_all
    ? `The whole run, ${time(whole)}`
    : `${moment(state.from)} to ${moment(state.to)} of ${time(whole)}`;
  const parts = [span];
  if (state.by === "communicator")
    parts.push(lanes === all ? plural(all, "lane") : `${lanes} of ${plural(all, "lane")}`);
  else parts.push(plural(lanes, "row"));
  if (state.tall !== null) parts.push(`rows ${state.top + 1} to ${state.top + state.tall} seen`);
  const each = (state.tall ?? rows.length) / Math.max(loaded?.tall_px ?? 1, 1);
  const words = [];
  if (canvas.dataset.calls === "too many") {
    words.push("Colours are shares of the time.");
    if (each > 1)
      words.push(`Each line of pixels shows, of ${Math.ceil(each)} rows, the one that waits least.`);
    words.push(
      source.is_whole
        ? "Zoom in for calls."
        : "This file has the single calls of the worst steps only: `w` goes there. `ncclscope view` has all.",
    );
  }
  const text = parts.join(", ") + (words.length > 0 ? `: ${words.join(" ")}` : "");
  if (where.textContent !== text) where.textContent = text;
}

function draw_axis(at, x, colours) {
  const length = state.to - state.from;
  const ticks = even_ticks(state.from, state.to, Math.max(2, at.width / 110));
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : length;
  context.font = "12px sans-serif";
  context.textAlign = "center";
  context.strokeStyle = colours.line;
  context.globalAlpha = 0.6;
  for (const us of ticks) context.strokeRect(x(us), at.top, 0, at.bottom - at.top);
  context.globalAlpha = 1;
  for (const us of ticks) {
    context.fillStyle = colours.soft;
    const text = moment(us, step);
    if (x(us) > at.left + 10 && x(us) < at.right - 20) context.fillText(text, x(us), at.bottom + 17);
  }
}

function draw_waiters(at, x, colours) {
  const { heat, waiting, ranks } = loaded;
  context.fillStyle = colours.wait;
  for (let bin = 0; bin < heat.bins; bin++) {
    const tall = ((WAITERS - 8) * waiting[bin]) / Math.max(ranks, 1);
    // Whole pixels, so that no gaps are seen between bins.
    const from = Math.max(Math.round(x(heat.begin + bin * heat.width)), at.left);
    const to = Math.min(Math.round(x(heat.begin + (bin + 1) * heat.width)), at.right);
    if (to > from) context.fillRect(from, at.top - 4 - tall, to - from, tall);
  }
  context.fillStyle = colours.soft;
  context.textAlign = "left";
  context.font = "11px sans-serif";
  context.fillText(at.left > 100 ? `how many of ${ranks} ranks wait` : "waiting", 6, at.top - 10);
}

function draw_heat(at, x, colours) {
  const { heat, image } = loaded;
  context.save();
  context.beginPath();
  context.rect(at.left, at.top, at.width, at.bottom - at.top);
  context.clip();
  context.imageSmoothingEnabled = false;
  const from = x(heat.begin);
  const to = x(heat.begin + heat.bins * heat.width);
  // While rows are moved, what was loaded stays where it belongs.
  const top = at.top + (loaded.top - state.top) * at.each;
  context.drawImage(image, from, top, to - from, loaded.rows.length * at.each);
  // Where calls are known one by one they take the place of the shares.
  context.fillStyle = colours.card;
  for (const [begin, end] of loaded.covered)
    context.fillRect(x(begin), at.top, x(end) - x(begin), at.bottom - at.top);
  context.restore();
}

// The row of each lane, in the picture.
function rows_of_lanes() {
  const found = new Map();
  shown_rows().forEach((row, at) => row.lanes.forEach((lane) => found.set(lane, at)));
  return found;
}

function draw_calls(at, x, colours) {
  const row_of = rows_of_lanes();
  const gap = at.each > 6 ? 2 : 0;
  const tall = Math.max(at.each - gap, 1);
  const open = hatching(colours.bad);
  context.save();
  context.beginPath();
  context.rect(at.left, at.top, at.width, at.bottom - at.top);
  context.clip();
  const operation = picked?.operation ?? null;
  const marked = [];
  for (const call of loaded.calls) {
    const row = row_of.get(call.lane);
    if (row === undefined || call.begin > state.to || call.begin + call.length < state.from) continue;
    const y = at.top + row * at.each + gap / 2;
    const from = x(call.begin);
    const to = Math.max(x(call.begin + call.length), from + 0.7);
    const box = { from, to, y, tall, call };
    draw_call(box, x, colours, open);
    if (call.call === picked?.call || (operation !== null && call.operation === operation)) marked.push(box);
    if (to - from > 90 && tall > 14) {
      context.fillStyle = ["open", "host"].includes(call.kind) ? colours.text : colours.ink;
      context.font = "12px sans-serif";
      context.textAlign = "left";
      const left = Math.max(from, at.left) + 4;
      const name = data.names[call.name];
      context.fillText(name, left, y + tall / 2 + 4, Math.max(to - left - 4, 1));
    }
  }
  for (const { from, to, y, call } of marked) {
    context.strokeStyle = colours.text;
    context.lineWidth = call.call === picked.call ? 2.5 : 1.5;
    context.strokeRect(from - 1, y - 1, to - from + 2, tall + 2);
    context.lineWidth = 1;
  }
  canvas.dataset.marked = marked.length;
  context.restore();
}

function draw_call({ from, to, y, tall, call }, x, colours, open) {
  const fill = (style, begin, end, top = y, height = tall) => {
    context.fillStyle = style;
    context.fillRect(begin, top, end - begin, height);
  };
  if (call.kind === "open") {
    fill(open, from, to);
    context.strokeStyle = colours.bad;
    if (tall > 3) context.strokeRect(from, y + 0.5, to - from, tall - 1);
    return;
  }
  // The API call is no time on the GPU, so it is lower.
  if (call.kind === "host") return fill(colours.host, from, to, y + tall / 4, tall / 2);
  if (call.kind === "kernel") return fill(colours.kernel, from, to);
  if (call.kind === "state") return fill(colours.text, from, from + 1, y + tall / 2, tall / 2);
  if (call.kind === "event") {
    fill(colours.event, from, to);
    // Those that lie in each other are told apart by their edges.
    context.strokeStyle = colours.card;
    if (to - from > 3 && tall > 3) context.strokeRect(from + 0.5, y + 0.5, to - from - 1, tall - 1);
    return;
  }
  if (call.kind === "nccl_kernel") return fill(colours.other, from, to);
  if (call.transfer === null) fill(colours.other, from, to);
  else {
    const arrived = Math.min(x(call.begin + call.length - call.transfer), to);
    fill(colours.wait, from, arrived);
    fill(colours.transfer, arrived, to);
    // The last to arrive waited for nobody.
    if (call.length - call.transfer <= 0 && tall > 8) {
      context.fillStyle = colours.bad;
      context.beginPath();
      context.moveTo(from - 4, y);
      context.lineTo(from + 4, y);
      context.lineTo(from, y + 7);
      context.fill();
    }
  }
  if (call.error === null) return;
  draw_whisker(x(call.begin - call.error), x(call.begin + call.error), y, tall, colours);
}

// How wrong the begin may be.
function draw_whisker(from, to, y, tall, colours) {
  if (to - from < 3 || tall < 8) return;
  const middle = y + tall - 3.5;
  context.strokeStyle = colours.text;
  context.beginPath();
  context.moveTo(from, middle - 2.5);
  context.lineTo(from, middle + 2.5);
  context.moveTo(from, middle);
  context.lineTo(to, middle);
  context.moveTo(to, middle - 2.5);
  context.lineTo(to, middle + 2.5);
  context.stroke();
}

// The text, cut at its end so that it is no wider.
const fits = new Map();
function fitting(text, wide) {
  const key = `${context.font} ${wide} ${text}`;
  if (!fits.has(key)) {
    let cut = text;
    while (cut.length > 1 && context.measureText(cut).width > wide) cut = `${cut.slice(0, -2)}…`;
    fits.set(key, cut);
  }
  return fits.get(key);
}

// The critical path of one step: a line along the lanes, from rank to rank.
function draw_path(at, x, colours) {
  const segments = data.path?.segments ?? [];
  const row_of = rows_of_lanes();
  const seen = segments.filter((s) => row_of.has(s.lane) && s.to_us >= state.from && s.from_us <= state.to);
  const is_narrow = seen.length && x(segments.at(-1).to_us) - x(segments[0].from_us) < 20;
  canvas.dataset.path = is_narrow ? 0 : seen.length;
  if (is_narrow) return;
  context.save();
  context.beginPath();
  context.rect(at.left, at.top, at.width, at.bottom - at.top);
  context.clip();
  let before = null;
  for (const segment of seen) {
    const y = at.top + (row_of.get(segment.lane) + 1) * at.each - Math.min(4, at.each / 3);
    const from = x(segment.from_us);
    context.strokeStyle = colours.text;
    if (before !== null && before !== y) {
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(from, before);
      context.lineTo(from, y);
      context.stroke();
    }
    context.lineWidth = segment.kind === "work" ? 3 : 6;
    context.beginPath();
    context.moveTo(from, y);
    context.lineTo(x(segment.to_us), y);
    context.stroke();
    before = y;
  }
  context.restore();
}

function draw_names(at, colours) {
  context.textAlign = "left";
  let free = -Infinity;
  const seen = shown_rows();
  const write = (row, index) => {
    const y = at.top + (index + 0.5) * at.each + 4;
    context.font = row.heading ? "bold 12px sans-serif" : "12px sans-serif";
    context.fillStyle = row.heading ? colours.soft : colours.text;
    const title = at.left > 100 || row.heading ? row.title : `${row.who}${row.is_kernels ? " K" : ""}`;
    const left = row.heading ? 2 : 6;
    context.fillText(fitting(title, at.left - left - 4), left, y);
    return y;
  };
  // Headings first: names give way to them.
  const taken = [];
  if (at.each < 13) {
    seen.forEach((row, index) => {
      const y = at.top + (index + 0.5) * at.each + 4;
      if (row.heading && y - free >= 13) taken.push((free = write(row, index)));
    });
    free = -Infinity;
  }
  seen.forEach((row, index) => {
    const y = at.top + (index + 0.5) * at.each + 4;
    if (row.heading && at.each < 13) return;
    if (y - free < 13 || taken.some((other) => Math.abs(other - y) < 13)) return;
    free = write(row, index);
  });
}

function draw_strip(at, x, colours) {
  context.strokeStyle = colours.soft;
  for (const us of data.steps?.begins_us ?? []) {
    const px = x(us);
    if (px >= at.left && px <= at.right) context.strokeRect(px, STRIP - 8, 0, 8);
  }
  context.font = "11px sans-serif";
  context.fillStyle = colours.soft;
  context.textAlign = "left";
  if (data.steps) {
    const which = data.steps.every > 1 ? `every ${data.steps.every} steps` : "steps";
    const text = at.left > 100 ? `ticks: ${which} of rank ${data.steps.rank ?? "?"}` : "steps";
    context.fillText(text, 6, STRIP - 4);
  }
  for (const { at_us } of data.findings) {
    const px = x(at_us);
    if (px < at.left || px > at.right) continue;
    context.fillStyle = colours.bad;
    context.beginPath();
    context.arc(px, 9, 6, 0.8 * Math.PI, 0.2 * Math.PI);
    context.lineTo(px, 21);
    context.fill();
  }
}

// ---- what is under the pointer

function under(event) {
  const at = last_layout;
  const box = canvas.getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const us = state.from + ((state.to - state.from) * (px - at.left)) / at.width;
  const index = Math.floor((py - at.top) / at.each);
  const row = py >= at.top && px >= at.left ? shown_rows()[index] : undefined;
  const per_px = (state.to - state.from) / at.width;
  let call = null;
  if (row && loaded) {
    const lanes = new Set(row.lanes);
    for (const c of loaded.calls) {
      if (!lanes.has(c.lane) || us < c.begin - per_px) continue;
      if (us > c.begin + Math.max(c.length, per_px) + per_px) continue;
      // Of those that overlap, the shortest: it lies on the others.
      if (!call || c.length <= call.length) call = c;
    }
  }
  const finding = py < STRIP ? data.findings.find((f) => Math.abs((f.at_us - us) / per_px) < 9) : null;
  return { px, py, us, row, index: state.top + index, call, finding };
}

function last_of(call) {
  const is_last = (c) => c.operation === call.operation && c.transfer !== null && c.length - c.transfer <= 0;
  return call.operation === null ? null : loaded.calls.find(is_last);
}

function words_of(call) {
  const lines = [];
  const waited = call.transfer === null ? null : call.length - call.transfer;
  const last = last_of(call);
  if (call.kind === "open")
    lines.push(`Not finished when the recording ended: open for ${time(call.length)} or more`);
  else if (call.kind === "host") lines.push(`API call of ${time(call.length)}; no GPU time`);
  else if (call.kind === "state") return [`State of an event, at ${moment(call.begin)}`];
  else if (call.kind === "event") lines.push("Event of NCCL");
  else if (call.kind === "kernel" || call.kind === "nccl_kernel")
    lines.push(`Ran for ${time(call.length)}, seen in a kernel window`);
  else if (waited === null)
    lines.push(`${time(call.length)} on the GPU; how much of it was waiting is not known`);
  else if (waited <= 0) lines.push(`Arrived last: waited for nobody, transfer ${time(call.transfer)}`);
  else
    lines.push(
      `Waited ${time(waited)}${last ? ` for ${rank_of(last.lane)}` : ""}, ` +
        `then transfer ${time(call.transfer)}`,
    );
  lines.push(`Begins at ${moment(call.begin)}, takes ${time(call.length)}`);
  if (call.error !== null) lines.push(`Begin and end are right to ± ${time(call.error)}`);
  return lines;
}

// What takes a question: of the operation, and of this rank in it.
function more_words(of) {
  if (of.kind === "event" || of.kind === "state")
    return Object.entries(of.columns).map(([name, value]) => `${name}: ${value}`);
  const mine = of.ranks?.find((r) => r.call === of.call);
  if (!mine) return [];
  const lines = [];
  if (of.ranks_in_all > 1 && of.skew_us !== null)
    lines.push(`${mine.at + 1} of ${of.ranks_in_all} to arrive; skew ${time(of.skew_us)}`);
  if (of.algbw_gb_per_s !== null) {
    const bus = of.busbw_gb_per_s === null ? "" : `, busbw ${three(of.busbw_gb_per_s)} GB/s`;
    lines.push(`Bandwidth ${three(of.algbw_gb_per_s)} GB/s${bus}`);
  }
  if (mine.exposed_us !== null) lines.push(`Exposed: a stream stood still for it ${time(mine.exposed_us)}`);
  if (mine.nic_us !== null) lines.push(`Data in the network's hands ${time(mine.nic_us)}`);
  return lines;
}

let asked_of = null;
let told = new Map();
async function tell_more(call) {
  asked_of = call.call;
  if (!told.has(call.call)) {
    await new Promise((done) => setTimeout(done, 120));
    if (asked_of !== call.call) return;
    if (told.size > 500) told = new Map();
    told.set(call.call, await source.call(call.call));
  }
  if (asked_of === call.call && pointed?.event) point(pointed.event);
}

function point(event) {
  const found = under(event);
  pointed = found.px >= last_layout.left ? { x: found.px, event } : null;
  let title = "";
  let lines = [];
  if (found.finding) [title, lines] = ["Finding", [found.finding.text]];
  else if (found.call) {
    const more = told.get(found.call.call);
    title = `${data.names[found.call.name]}, ${title_of(found.call.lane)}`;
    lines = [...words_of(found.call), ...(more ? more_words(more) : [])];
    if (!more && asked_of !== found.call.call) tell_more(found.call);
  } else if (found.row && !found.row.heading && loaded?.mixed) {
    const { heat, tall_px, mixed } = loaded;
    const bin = Math.floor((found.us - heat.begin) / heat.width);
    const line = Math.floor(((found.index - loaded.top) * tall_px) / loaded.rows.length);
    const is_covered = loaded.covered.some(([a, b]) => a <= found.us && found.us < b);
    if (!is_covered && bin >= 0 && bin < heat.bins && line >= 0 && line < tall_px) {
      const cell = mixed.subarray(4 * (line * heat.bins + bin), 4 * (line * heat.bins + bin) + 4);
      const [wait, transfer, rest, kernels] = [...cell].map((share) => share / 255);
      title = found.row.title;
      const [from, to] = [heat.begin + bin * heat.width, heat.begin + (bin + 1) * heat.width];
      const all = percent(Math.min(wait + transfer + rest + kernels, 1));
      const ran = found.row.is_events ? "events" : "kernels ran";
      const what = found.row.is_kernels
        ? `${ran} ${all} of the time`
        : `in NCCL ${all} of the time, waiting ${percent(wait)}`;
      lines = [`${moment(from)} to ${moment(to)}: ${what}`];
      if (loaded.rows.length > tall_px) lines.push("of the rows here, the one that waits least");
    }
  }
  if (!found.call) asked_of = null;
  tip.hidden = !title;
  if (title) {
    tip.replaceChildren(element("b", {}, title), ...lines.map((line) => element("span", {}, line)));
    const most = canvas.clientWidth - tip.offsetWidth - 4;
    const beside = found.px + 16 > most ? found.px - tip.offsetWidth - 16 : found.px + 16;
    tip.style.left = `${Math.max(0, Math.min(beside, most))}px`;
    tip.style.top = `${found.py + 14}px`;
  }
  draw_soon();
}

// ---- one operation

function picked_is(found) {
  if (!found) return false;
  picked = found;
  state.call = found.call;
  describe();
  return true;
}

// Brings the row of a lane into sight.
function reveal(lane) {
  const at = rows.findIndex((row) => row.lanes.includes(lane));
  if (at < 0 || state.tall === null || (at >= state.top && at < state.top + state.tall)) return;
  state.top = Math.min(Math.max(at - Math.floor(state.tall / 2), 0), rows.length - state.tall);
}

async function go(which) {
  if (!picked_is(await source.other(which, state.call))) return;
  const ranks = picked.ranks ?? [picked];
  const from = Math.min(...ranks.map((r) => r.begin_us));
  const to = Math.max(...ranks.map((r) => r.begin_us + r.length_us));
  const room = Math.max(to - from, 2) * 0.6;
  reveal(picked.lane);
  show(from - room, to + room);
}

// The same operation, on a row further up or down.
async function go_rank(by_rows) {
  if (!picked?.ranks || picked.ranks.length < 2) return pan_rows(by_rows);
  const place = (r) => rows.findIndex((row) => row.lanes.includes(r.lane));
  const order = [...picked.ranks].filter((r) => place(r) >= 0).sort((a, b) => place(a) - place(b));
  const other = order[order.findIndex((r) => r.call === picked.call) + by_rows];
  if (!other || !picked_is(await source.call(other.call))) return;
  reveal(picked.lane);
  changed();
}

function let_go() {
  picked = null;
  state.call = null;
  describe();
  changed();
}

function sentence_of() {
  const whose = rank_of(picked.lane);
  const who = whose.replace(/^./, (letter) => letter.toUpperCase());
  if (picked.kind === "event") return `${who}: an event of NCCL, ${time(picked.length_us)}.`;
  if (picked.kind === "state") return `${who}: a state of an event, at ${moment(picked.begin_us)}.`;
  if (picked.kind === "kernel" || picked.kind === "nccl_kernel")
    return `It ran on the GPU of ${whose} for ${time(picked.length_us)}, seen in a kernel window.`;
  if (picked.kind === "open")
    return `${who}: not finished when the recording ended, open for ${time(picked.length_us)} or more.`;
  const on = picked.kind === "gpu" ? "on the GPU" : "in the API call; there is no GPU time";
  if (picked.waited_us === null || picked.ranks_in_all < 2) return `${who}: ${time(picked.length_us)} ${on}.`;
  const last = picked.ranks.at(-1);
  const transfer = `The transfer took ${time(picked.transfer_us)}.`;
  return last.call === picked.call
    ? `${who} arrived last: ${time(picked.skew_us)} after the first rank. ${transfer}`
    : `${who} waited ${time(picked.waited_us)} for ${rank_of(last.lane)}. ${transfer}`;
}

// Figures of the operation and of this rank in it, with why one is missing.
function figures() {
  const mine = picked.ranks.find((r) => r.call === picked.call);
  const or = (value, text, why) => (value === null || value === undefined ? why : text(value));
  const alone = picked.ranks_in_all < 2;
  const no_wait = alone
    ? "not known: only this rank's call is in the capture"
    : "not known: not every rank has a GPU time, or this operation does not wait for all ranks";
  const bandwidth = (value) => {
    const bus = picked.busbw_gb_per_s === null ? "" : `; busbw ${three(picked.busbw_gb_per_s)} GB/s`;
    return `${three(value)} GB/s of payload${bus}`;
  };
  return [
    ["Skew, first to last rank", or(picked.skew_us, time, no_wait)],
    ["Bandwidth of the transfer", or(picked.algbw_gb_per_s, bandwidth, no_wait)],
    ["Exposed on this rank", or(mine.exposed_us, time, "not known: no stream was seen to wait for it")],
    ["Data in the network's hands", or(mine.nic_us, time, "not recorded for this call")],
    ["Error of its times", or(picked.error_us, (us) => `± ${time(us)}`, "not known")],
  ];
}

function facts(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) list.append(element("dt", {}, name), element("dd", {}, String(value)));
  return list;
}

function table_of_ranks() {
  const { ranks } = picked;
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
    body.append(element("tr", r.call === picked.call ? { class: "picked" } : {}, ...cells));
  }
  const table = element("table", { "aria-label": "Ranks by arrival" });
  table.append(element("thead", {}, element("tr", {}, ...heads)), body);
  const frame = { class: "frame", tabindex: "0", role: "region", "aria-label": "Ranks by arrival" };
  return element("div", frame, table);
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
      const inside = element("span");
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
  detail.hidden = !picked;
  if (!picked) return;
  const everything = element(
    "details",
    {},
    element("summary", {}, "Everything that was recorded of it"),
    facts(Object.entries(picked.columns)),
  );
  const inside = [element(HEADING, {}, picked.name), element("p", {}, sentence_of())];
  if (picked.ranks) inside.push(facts(figures()), table_of_ranks());
  if (picked.parts?.length) {
    const heading = element(HEADING, {}, `The parts of the call on ${rank_of(picked.lane)}`);
    inside.push(heading, tree_of(picked.parts));
  }
  detail.replaceChildren(...inside, everything);
}

// ---- hands

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  drag = {
    x: event.clientX,
    y: event.clientY,
    from: state.from,
    to: state.to,
    top: state.top,
    us: under(event).us,
    moved: false,
    selects: event.shiftKey,
  };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return point(event);
  const [along, across] = [event.clientX - drag.x, event.clientY - drag.y];
  drag.moved ||= Math.hypot(along, across) > 3;
  if (!drag.moved || drag.selects) return;
  if (state.tall !== null) {
    const by_rows = Math.round(across / last_layout.each);
    state.top = Math.min(Math.max(drag.top - by_rows, 0), rows.length - state.tall);
  }
  const us = (along * (drag.to - drag.from)) / last_layout.width;
  show(drag.from - us, drag.to - us);
});
canvas.addEventListener("pointerup", (event) => {
  const was = drag;
  drag = null;
  if (!was) return;
  const found = under(event);
  if (was.moved && was.selects) return show(Math.min(was.us, found.us), Math.max(was.us, found.us));
  if (was.moved) return;
  if (found.finding) return fly(found.finding);
  if (found.call) return source.call(found.call.call).then((call) => picked_is(call) && changed());
  if (found.row && canvas.dataset.calls === "too many") return zoom(4, found.us, found.index);
  let_go();
});
canvas.addEventListener("pointercancel", () => (drag = null));
canvas.addEventListener("pointerleave", () => {
  tip.hidden = true;
  pointed = null;
  asked_of = null;
  draw_soon();
});
canvas.addEventListener(
  "wheel",
  (event) => {
    // In a report the wheel scrolls the page, unless the drawing has the focus.
    if (kept && document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    const along = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const found = under(event);
    if (along) pan((event.deltaX || event.deltaY) / last_layout.width);
    else zoom(Math.exp(-event.deltaY / 400), found.us, found.row ? found.index : null);
  },
  { passive: false },
);

function toggle(name, is_on) {
  buttons[name].setAttribute("aria-pressed", String(is_on));
}
const actions = {
  ArrowLeft: () => pan(-0.2),
  ArrowRight: () => pan(0.2),
  ArrowUp: () => go_rank(-1),
  ArrowDown: () => go_rank(1),
  PageUp: () => pan_rows(-(state.tall ?? 0)),
  PageDown: () => pan_rows(state.tall ?? 0),
  "+": () => zoom(2),
  "=": () => zoom(2),
  "-": () => zoom(0.5),
  0: show_all,
  n: () => state.call !== null && go("next"),
  p: () => state.call !== null && go("previous"),
  w: () => go("worst"),
  s: () => buttons.sort.click(),
  k: () => has_kernels && buttons.kernels.click(),
  e: () => has_events && buttons.events.click(),
  "/": () => search.focus(),
  Escape: let_go,
};
// In a report the keys are those of the viewer only while the focus is in it.
(kept ? root : window).addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const is_field = event.target.closest("input, [role=region]") && event.key !== "Escape";
  if (is_field || event.target.closest("select")) return;
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  if (event.target === search) canvas.focus();
  action();
});
buttons.fit.addEventListener("click", show_all);
buttons.in.addEventListener("click", () => zoom(2));
buttons.out.addEventListener("click", () => zoom(0.5));
buttons.worst.addEventListener("click", () => actions.w());
buttons.sort.addEventListener("click", () => {
  state.sort = !state.sort;
  toggle("sort", state.sort);
  rearranged();
});
buttons.kernels.addEventListener("click", () => {
  state.kernels = !state.kernels;
  toggle("kernels", state.kernels);
  rearranged();
});
buttons.events.addEventListener("click", () => {
  state.events = !state.events;
  toggle("events", state.events);
  rearranged();
});
for (const [name, { select }] of [
  ["by", by],
  ["group", group],
]) {
  select.addEventListener("change", () => {
    state[name] = select.value;
    rearranged();
  });
}
search.addEventListener("input", () => {
  state.words = search.value;
  rearranged();
});

// ---- findings

function fly({ at_us }) {
  show(at_us - whole / 50, at_us + whole / 50);
  canvas.focus();
}
findings.hidden = !data.findings.length;
if (data.findings.length) {
  const list = element("ul");
  for (const finding of data.findings) {
    const to = button(finding.text, "Show this moment");
    to.addEventListener("click", () => fly(finding));
    list.append(element("li", {}, to));
  }
  findings.append(element(HEADING, {}, "Findings, with the moment of each"), list);
}

if (data.path) {
  const { step, segments } = data.path;
  const [from, to] = [segments[0].from_us, segments.at(-1).to_us];
  const named = `Critical path of step ${step}, the one of median time: ${time(to - from)}`;
  const whole_step = button(named, "Show this step; the line along the lanes is its critical path");
  whole_step.addEventListener("click", () => {
    show(from - (to - from) / 20, to + (to - from) / 20);
    canvas.focus();
  });
  const list = element("ol");
  for (const segment of segments.slice(0, MOST_SEGMENTS)) {
    const why = segment.why ? ` (${segment.why})` : "";
    const took = time(segment.to_us - segment.from_us);
    const text = `${took}: ${segment.what} on rank ${segment.rank ?? "?"}${why}`;
    const to_segment = button(text, "Show this segment");
    const around = Math.max(segment.to_us - segment.from_us, 1) / 5;
    to_segment.addEventListener("click", () => {
      show(segment.from_us - around, segment.to_us + around);
      canvas.focus();
    });
    list.append(element("li", {}, to_segment));
  }
  const more = segments.length - MOST_SEGMENTS;
  if (more > 0) list.append(element("li", {}, `… ${plural(more, "segment")} more in the report`));
  const details = element("details", { class: "findings path" });
  details.append(element("summary", {}, "Segments, in order"), list);
  path.append(element(HEADING, {}, whole_step), details);
}
if (data.start_up) {
  const { nranks, time_us, legs } = data.start_up;
  const list = element("ol");
  for (const leg of legs) {
    list.append(element("li", {}, `${time(leg.time_us)}: ${leg.what} on rank ${leg.rank}`));
  }
  const details = element("details", { class: "findings path start-up" });
  const named = `Critical path of start-up: ${time(time_us)} over ${plural(nranks, "rank")}`;
  details.append(element("summary", {}, named), list);
  path.append(details);
}
path.hidden = !data.path && !data.start_up;

if (!kept) {
  document.getElementById("capture").textContent = `NCCL calls of ${data.capture}`;
  document.getElementById("verdict").textContent = data.verdict;
  document.title = `${data.capture} - ncclscope view`;
}

function start() {
  read_address();
  toggle("sort", state.sort);
  toggle("kernels", state.kernels);
  toggle("events", state.events);
  search.value = state.words;
  by.select.value = state.by;
  group.select.value = state.group;
  lay_rows();
  if (state.call !== null) source.call(state.call).then((call) => picked_is(call) && draw_soon());
  draw();
  load_soon();
}
addEventListener("hashchange", () => {
  if (!kept || location.hash.includes("from=")) start();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  if (loaded) paint_heat();
  draw_soon();
});
let wide = 0;
new ResizeObserver(() => {
  if (canvas.clientWidth === wide) return;
  wide = canvas.clientWidth;
  loaded = null;
  draw();
  load_soon();
}).observe(canvas.parentElement);
start();
