// The viewer: lanes of ranks over time, from the whole run down to one operation.
//
// A heat map comes as bytes, for each lane and bin the share of waiting and of all of NCCL; calls of a span
// come one by one once they are few enough, and are drawn over it. What is shown is in the address after `#`,
// so a link leads to the same place.

const $ = (id) => document.getElementById(id);
const canvas = document.querySelector("canvas");
const context = canvas.getContext("2d");
const tip = document.querySelector(".tip");
const data = await (await fetch("data.json")).json();
const whole = data.length_us;

// ---- words

const compact = (value) => String(+value.toPrecision(4));
function time(us) {
  if (Math.abs(us) >= 1e6) return `${compact(us / 1e6)} s`;
  if (Math.abs(us) >= 1e3) return `${compact(us / 1e3)} ms`;
  return `${compact(us)} µs`;
}
const percent = (share) => `${Math.round(100 * share)} %`;
const rank_of = (lane) => data.lanes[lane].title.split(":")[0];

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// ---- what is shown

const state = { from: 0, to: whole, sort: false, words: "", call: null };
let heat = null; // { begin, width, bins, shares }
let calls = [];
let picked = null;
let pointed = null;

function read_address() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = (name, otherwise) =>
    asked.has(name) && Number.isFinite(+asked.get(name)) ? +asked.get(name) : otherwise;
  state.from = Math.max(0, number("from", 0));
  state.to = Math.min(whole, number("to", whole));
  if (!(state.to > state.from)) [state.from, state.to] = [0, whole];
  state.sort = asked.get("sort") === "late";
  state.words = asked.get("ranks") ?? "";
  state.call = asked.has("call") ? number("call", null) : null;
}

function write_address() {
  const parts = { from: state.from.toFixed(3), to: state.to.toFixed(3) };
  if (state.sort) parts.sort = "late";
  if (state.words) parts.ranks = state.words;
  if (state.call !== null) parts.call = state.call;
  history.replaceState(null, "", `#${new URLSearchParams(parts)}`);
}

// Lanes from top to bottom.
function shown_lanes() {
  // Any of these, each as it stands: `rank 1` is not rank 12.
  const wanted = state.words
    .toLowerCase()
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
  const is_in = (title, part) => new RegExp(`(?<!\\w)${part.replace(/[^\w ]/g, "\\$&")}(?!\\d)`).test(title);
  const all = data.lanes
    .map((_, i) => i)
    .filter((i) => {
      const title = `${data.lanes[i].title} ${data.lanes[i].host}`.toLowerCase();
      return !wanted.length || wanted.some((part) => is_in(title, part));
    });
  if (state.sort) all.sort((a, b) => data.lanes[a].waited_us - data.lanes[b].waited_us || a - b);
  return all;
}

// ---- asking

let asked = 0;
let timer = null;
async function load() {
  const number = ++asked;
  const span = `from=${state.from}&to=${state.to}`;
  const [bytes, some] = await Promise.all([
    fetch(`heat?${span}&bins=${Math.ceil(layout().width)}`).then((r) => r.arrayBuffer()),
    fetch(`calls?${span}`).then((r) => r.json()),
  ]);
  // A newer question is under way.
  if (number !== asked) return;
  const head = new DataView(bytes);
  const [begin, width, bins] = [head.getFloat64(0, true), head.getFloat64(8, true), head.getUint32(16, true)];
  heat = { begin, width, bins, shares: new Uint8Array(bytes, 24) };
  calls = some.calls.map(([call, lane, begin, length, transfer, name, is_gpu, operation]) => ({
    call,
    lane,
    begin,
    length,
    transfer,
    name,
    is_gpu,
    operation,
  }));
  canvas.dataset.calls = some.too_many ? "too many" : String(calls.length);
  canvas.dataset.ready = String(number);
  draw();
}

function changed() {
  write_address();
  draw();
  clearTimeout(timer);
  timer = setTimeout(load, 60);
}

function show(from, to) {
  const length = Math.min(Math.max(to - from, 0.5), whole);
  const middle = (from + to) / 2;
  state.from = Math.min(Math.max(middle - length / 2, 0), whole - length);
  state.to = state.from + length;
  changed();
}

const zoom = (by, at = (state.from + state.to) / 2) =>
  show(at - (at - state.from) / by, at + (state.to - at) / by);
const pan = (share) => {
  const by = share * (state.to - state.from);
  show(state.from + by, state.to + by);
};

// ---- drawing

const STRIP = 30;
const WAITERS = 34;
const AXIS = 26;

function layout() {
  const wide = canvas.clientWidth;
  const lanes = shown_lanes();
  const left = wide < 600 ? 76 : 190;
  const most = Math.max(240, Math.min(innerHeight * 0.62, 720));
  const each = Math.min(40, Math.max((most - STRIP - WAITERS - AXIS) / Math.max(lanes.length, 1), 0.02));
  const top = STRIP + WAITERS;
  const bottom = top + Math.max(each * lanes.length, 20);
  return {
    lanes,
    left,
    right: wide - 6,
    width: wide - 6 - left,
    top,
    bottom,
    each,
    height: Math.ceil(bottom + AXIS),
    wide,
  };
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

function hatching(line) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const on = tile.getContext("2d");
  on.strokeStyle = line;
  on.beginPath();
  on.moveTo(0, 6);
  on.lineTo(6, 0);
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
  canvas.dataset.lanes = at.lanes.length;
  canvas.dataset.place = `${at.left} ${at.top} ${at.bottom}`;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const colours = Object.fromEntries(
    ["card", "text", "soft", "line", "wait", "transfer", "other", "host", "bad", "link"].map((n) => [
      n,
      colour(`--${n}`),
    ]),
  );
  context.fillStyle = colours.card;
  context.fillRect(0, 0, at.wide, at.height);
  const x = (us) => at.left + (at.width * (us - state.from)) / (state.to - state.from);
  draw_axis(at, x, colours);
  if (heat) {
    draw_waiters(at, x, colours);
    if (canvas.dataset.calls === "too many") draw_heat(at, colours, scale);
    else draw_calls(at, x, colours);
  }
  draw_names(at, colours);
  draw_strip(at, x, colours);
  if (pointed?.x !== undefined) {
    context.strokeStyle = colours.soft;
    context.strokeRect(pointed.x, at.top, 0, at.bottom - at.top);
  }
  const [from, to] = [time(state.from), time(state.to)];
  const names =
    at.lanes.length === data.lanes.length
      ? `${data.lanes.length} lanes`
      : `${at.lanes.length} of ${data.lanes.length} lanes`;
  $("where").textContent =
    `${from} to ${to} of ${time(whole)}, ${names}` +
    (canvas.dataset.calls === "too many" ? ": shares of the time; zoom in for calls" : "");
}

function draw_axis(at, x, colours) {
  const length = state.to - state.from;
  const rough = length / Math.max(2, at.width / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((s) => s * power).find((s) => s >= rough) ?? 10 * power;
  context.font = "12px sans-serif";
  context.textAlign = "center";
  context.strokeStyle = colours.line;
  for (let us = Math.ceil(state.from / step) * step; us <= state.to; us += step) {
    context.strokeRect(x(us), at.top, 0, at.bottom - at.top);
    context.fillStyle = colours.soft;
    const [unit, by] = length >= 2e6 ? ["s", 1e6] : length >= 2e3 ? ["ms", 1e3] : ["µs", 1];
    const text = `${(us / by).toFixed(Math.max(0, -Math.floor(Math.log10(step / by) + 1e-9)))} ${unit}`;
    if (x(us) > at.left + 10 && x(us) < at.right - 20) context.fillText(text, x(us), at.bottom + 17);
  }
}

// How many lanes wait.
function draw_waiters(at, x, colours) {
  const { bins, shares } = heat;
  const lanes = data.lanes.length;
  context.fillStyle = colours.wait;
  for (let bin = 0; bin < bins; bin++) {
    let sum = 0;
    for (const lane of at.lanes) sum += shares[2 * (lane * bins + bin)];
    const tall = ((WAITERS - 8) * sum) / (255 * Math.max(at.lanes.length, 1));
    const from = Math.max(x(heat.begin + bin * heat.width), at.left);
    const to = Math.min(x(heat.begin + (bin + 1) * heat.width), at.right);
    if (to > from) context.fillRect(from, at.top - 4 - tall, to - from, tall);
  }
  context.fillStyle = colours.soft;
  context.textAlign = "left";
  context.font = "11px sans-serif";
  context.fillText(at.left > 100 ? `share of ${lanes} lanes that wait` : "waiting", 6, at.top - 10);
}

function draw_heat(at, colours, scale) {
  const [wide, tall] = [Math.round(at.width * scale), Math.round((at.bottom - at.top) * scale)];
  const image = context.createImageData(wide, tall);
  const pixels = new Uint32Array(image.data.buffer);
  const [card, wait, transfer] = [rgb(colours.card), rgb(colours.wait), rgb(colours.transfer)];
  // Of 16 shares of waiting and 16 of the rest each mixed colour is made once.
  const mixed = new Uint32Array(256 * 256);
  const mix = (w, all) => {
    const a = w / 255;
    const b = Math.max(all - w, 0) / 255;
    const [r, g, bl] = [0, 1, 2].map((i) =>
      Math.round(card[i] * Math.max(1 - a - b, 0) + wait[i] * a + transfer[i] * b),
    );
    return (0xff000000 | (bl << 16) | (g << 8) | r) >>> 0;
  };
  const { bins, shares, begin, width } = heat;
  const span = state.to - state.from;
  const bin_of = new Int32Array(wide);
  for (let px = 0; px < wide; px++) {
    const us = state.from + (span * (px + 0.5)) / wide;
    bin_of[px] = Math.min(Math.max(Math.floor((us - begin) / width), 0), bins - 1);
  }
  const rows = at.lanes.length;
  let before = -1;
  for (let py = 0; py < tall; py++) {
    const row = Math.min(Math.floor((py * rows) / tall), rows - 1);
    if (row === before) {
      pixels.copyWithin(py * wide, (py - 1) * wide, py * wide);
      continue;
    }
    before = row;
    const base = at.lanes[row] * bins;
    for (let px = 0; px < wide; px++) {
      const i = 2 * (base + bin_of[px]);
      const key = (shares[i] << 8) | shares[i + 1];
      pixels[py * wide + px] = mixed[key] ||= mix(shares[i], shares[i + 1]);
    }
  }
  context.putImageData(image, Math.round(at.left * scale), Math.round(at.top * scale));
}

function draw_calls(at, x, colours) {
  const row_of = new Map(at.lanes.map((lane, row) => [lane, row]));
  const pattern = hatching(colours.host);
  const gap = at.each > 6 ? 2 : 0;
  const tall = Math.max(at.each - gap, 1);
  context.save();
  context.beginPath();
  context.rect(at.left, at.top, at.width, at.bottom - at.top);
  context.clip();
  const operation = picked?.operation;
  for (const call of calls) {
    const row = row_of.get(call.lane);
    if (row === undefined) continue;
    const y = at.top + row * at.each + gap / 2;
    const from = x(call.begin);
    const to = Math.max(x(call.begin + call.length), from + 0.7);
    if (!call.is_gpu) {
      context.fillStyle = pattern;
      context.fillRect(from, y, to - from, tall);
    } else if (call.transfer === null) {
      context.fillStyle = colours.other;
      context.fillRect(from, y, to - from, tall);
    } else {
      const arrived = Math.min(x(call.begin + call.length - call.transfer), to);
      context.fillStyle = colours.wait;
      context.fillRect(from, y, arrived - from, tall);
      context.fillStyle = colours.transfer;
      context.fillRect(arrived, y, to - arrived, tall);
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
    if (to - from > 90 && tall > 14) {
      context.fillStyle = "#ffffff";
      context.font = "12px sans-serif";
      context.textAlign = "left";
      context.fillText(data.names[call.name], Math.max(from, at.left) + 4, y + tall / 2 + 4, to - from - 8);
    }
    if (call.call === picked?.call || (operation != null && call.operation === operation)) {
      context.strokeStyle = colours.text;
      context.lineWidth = call.call === picked?.call ? 2.5 : 1.5;
      context.strokeRect(from - 1, y - 1, to - from + 2, tall + 2);
      context.lineWidth = 1;
    }
  }
  context.restore();
}

function draw_names(at, colours) {
  context.font = "12px sans-serif";
  context.textAlign = "left";
  let free = 0;
  at.lanes.forEach((lane, row) => {
    const y = at.top + (row + 0.5) * at.each + 4;
    if (y - free < 13) return;
    free = y;
    context.fillStyle = colours.text;
    const title = at.left > 100 ? data.lanes[lane].title : rank_of(lane);
    context.fillText(title, 6, y, at.left - 12);
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
  if (data.steps)
    context.fillText(
      at.left > 100 ? `ticks: steps of rank ${data.steps.rank ?? "?"}` : "steps",
      6,
      STRIP - 4,
    );
  for (const { at_us } of data.findings) {
    const px = x(at_us);
    if (px < at.left || px > at.right) continue;
    context.fillStyle = colours.bad;
    context.beginPath();
    context.arc(px, 9, 6, 0, 7);
    context.moveTo(px - 5, 12);
    context.lineTo(px, 21);
    context.lineTo(px + 5, 12);
    context.fill();
  }
}

// ---- what is under the pointer

function under(event) {
  const at = last_layout;
  const box = canvas.getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const us = state.from + ((state.to - state.from) * (px - at.left)) / at.width;
  const row = Math.floor((py - at.top) / at.each);
  const lane = at.lanes[row];
  const per_px = (state.to - state.from) / at.width;
  let call = null;
  if (lane !== undefined && py >= at.top && canvas.dataset.calls !== "too many") {
    for (const c of calls) {
      if (c.lane === lane && us >= c.begin - per_px && us <= c.begin + Math.max(c.length, per_px) + per_px)
        call = c;
    }
  }
  const finding = py < STRIP ? data.findings.find((f) => Math.abs((f.at_us - us) / per_px) < 9) : null;
  return { px, py, us, lane: py >= at.top && px >= at.left ? lane : undefined, call, finding };
}

function words_of(call) {
  const lines = [];
  const waited = call.transfer === null ? null : call.length - call.transfer;
  const last = calls.find(
    (c) =>
      c.operation !== null &&
      c.operation === call.operation &&
      c.transfer !== null &&
      c.length - c.transfer <= 0,
  );
  if (waited === null)
    lines.push(
      call.is_gpu
        ? `${time(call.length)} on the GPU; how much of it was waiting is not known`
        : `API call of ${time(call.length)}; no GPU time`,
    );
  else if (waited <= 0) lines.push(`Arrived last: waited for nobody, transfer ${time(call.transfer)}`);
  else
    lines.push(
      `Waited ${time(waited)}${last ? ` for ${rank_of(last.lane)}` : ""}, ` +
        `then transfer ${time(call.transfer)}`,
    );
  lines.push(`From ${time(call.begin)}, ${time(call.length)} in all`);
  return lines;
}

function point(event) {
  const found = under(event);
  pointed = found.px >= last_layout.left ? { x: found.px } : null;
  let title = "";
  let lines = [];
  if (found.finding) [title, lines] = ["Finding", [found.finding.text]];
  else if (found.call)
    [title, lines] = [
      `${data.names[found.call.name]}, ${data.lanes[found.call.lane].title}`,
      words_of(found.call),
    ];
  else if (found.lane !== undefined && heat) {
    const bin = Math.floor((found.us - heat.begin) / heat.width);
    if (bin >= 0 && bin < heat.bins) {
      const i = 2 * (found.lane * heat.bins + bin);
      const [wait, all] = [heat.shares[i] / 255, heat.shares[i + 1] / 255];
      title = data.lanes[found.lane].title;
      const [from, to] = [heat.begin + bin * heat.width, heat.begin + (bin + 1) * heat.width];
      lines = [`${time(from)} to ${time(to)}: in NCCL ${percent(all)} of the time, waiting ${percent(wait)}`];
    }
  }
  tip.hidden = !title;
  if (title) {
    tip.replaceChildren(element("b", {}, title), ...lines.map((line) => element("span", {}, line)));
    const most = canvas.clientWidth - tip.offsetWidth - 4;
    const beside = found.px + 16 > most ? found.px - tip.offsetWidth - 16 : found.px + 16;
    tip.style.left = `${Math.max(0, Math.min(beside, most))}px`;
    tip.style.top = `${found.py + 14}px`;
  }
  draw();
}

// ---- one operation

async function pick(path) {
  const answer = await fetch(path);
  if (!answer.ok) return;
  picked = await answer.json();
  state.call = picked.call;
  describe();
}

async function go(path) {
  await pick(path);
  if (picked && path !== `call?call=${state.call}`) {
    const begins = picked.ranks.map((r) => r.begin_us);
    const ends = picked.ranks.map((r) => r.begin_us + r.length_us);
    const [from, to] = [Math.min(...begins), Math.max(...ends)];
    const room = Math.max(to - from, 2) * 0.6;
    show(from - room, to + room);
  } else changed();
}

function describe() {
  const place = $("detail");
  place.hidden = !picked;
  if (!picked) return;
  const { ranks, columns } = picked;
  const mine = ranks.find((r) => r.call === picked.call);
  const longest = ranks[0].length_us;
  const known = ranks.every((r) => r.waited_us !== null);
  const last = ranks.at(-1);
  const by_what = mine.is_gpu ? " on the GPU" : " in the API call; there is no GPU time";
  const transfer = `The transfer took ${time(last.length_us)}.`;
  const sentence =
    !known || ranks.length < 2
      ? `${rank_of(picked.lane)}: ${time(picked.length_us)}${by_what}.`
      : mine.call === last.call
        ? `${rank_of(picked.lane)} arrived last: ${time(longest - last.length_us)} after the first rank. ` +
          transfer
        : `${rank_of(picked.lane)} waited ${time(mine.waited_us)} for ${rank_of(last.lane)}. ${transfer}`;
  const rate =
    known && columns.bytes && last.length_us > 0
      ? ` That is ${compact(columns.bytes / last.length_us / 1e3)} GB/s of payload.`
      : "";
  const table = element("table", { "aria-label": "Ranks by arrival" });
  const heads = ["Rank, by arrival", "arrived after the first", "waited", "GPU time"];
  table.append(
    element("thead", {}, element("tr", {}, ...heads.map((h) => element("th", { scope: "col" }, h)))),
  );
  const body = element("tbody");
  for (const r of ranks) {
    const arrival = known ? time(longest - r.length_us) : "-";
    const cells = [
      data.lanes[r.lane].title,
      arrival,
      r.waited_us === null ? "-" : time(r.waited_us),
      r.is_gpu ? time(r.length_us) : "-",
    ];
    body.append(
      element(
        "tr",
        r.call === picked.call ? { class: "picked" } : {},
        ...cells.map((c) => element("td", {}, c)),
      ),
    );
  }
  table.append(body);
  const list = element("dl");
  for (const [name, value] of Object.entries(columns))
    list.append(element("dt", {}, name), element("dd", {}, String(value)));
  const parts = own_parts(columns);
  place.replaceChildren(
    element("h2", {}, picked.name),
    element("p", {}, sentence + rate),
    element(
      "div",
      { class: "frame", tabindex: "0", role: "region", "aria-label": "Ranks by arrival" },
      table,
    ),
    ...(parts.length
      ? [
          element("h2", {}, `The call on ${rank_of(picked.lane)}`),
          element("ul", {}, ...parts.map((p) => element("li", {}, p))),
        ]
      : []),
    element("details", {}, element("summary", {}, "Everything that was recorded of it"), list),
  );
}

// The parts of the call in the order in which they happen, since the API call.
function own_parts(columns) {
  const ns = (name) => (columns[name] === undefined ? null : BigInt(columns[name]));
  const begin = ns("api_ns");
  const since = (from, to) => (from === null || to === null ? null : Number(to - from) / 1e3);
  const parts = [
    ["In the API call", since(begin, ns("return_ns"))],
    ["From the API call until NCCL enqueued it", since(begin, ns("enqueue_ns"))],
    ["From the API call to the launch", since(begin, ns("launch_start_ns"))],
    ["Launching", since(ns("launch_start_ns"), ns("launch_end_ns"))],
    [
      "From the launch until its kernel began",
      columns.gpu_error_ns === undefined ? null : since(ns("launch_start_ns"), ns("gpu_start_ns")),
    ],
    ["On the GPU", columns.gpu_time_ns === undefined ? null : columns.gpu_time_ns / 1e3],
  ];
  return parts.filter(([, us]) => us !== null).map(([what, us]) => `${what}: ${time(us)}`);
}

// ---- hands

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  if (event.button !== 0) return;
  drag = {
    x: event.clientX,
    from: state.from,
    to: state.to,
    us: under(event).us,
    moved: false,
    selects: event.shiftKey,
  };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) return point(event);
  const by = event.clientX - drag.x;
  drag.moved ||= Math.abs(by) > 3;
  if (!drag.moved || drag.selects) return;
  const us = (by * (drag.to - drag.from)) / last_layout.width;
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
  if (found.call) return pick(`call?call=${found.call.call}`).then(changed);
  if (found.lane !== undefined && canvas.dataset.calls === "too many") return zoom(4, found.us);
  picked = null;
  state.call = null;
  describe();
  changed();
});
canvas.addEventListener("pointerleave", () => {
  tip.hidden = true;
  pointed = null;
  draw();
});
canvas.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const along = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (along) pan((event.deltaX || event.deltaY) / last_layout.width);
    else zoom(Math.exp(-event.deltaY / 400), under(event).us);
  },
  { passive: false },
);

const actions = {
  ArrowLeft: () => pan(-0.2),
  ArrowRight: () => pan(0.2),
  "+": () => zoom(2),
  "=": () => zoom(2),
  "-": () => zoom(0.5),
  0: () => show(0, whole),
  n: () => state.call !== null && go(`next?call=${state.call}`),
  p: () => state.call !== null && go(`previous?call=${state.call}`),
  w: () => go(state.call === null ? "worst" : `worst?call=${state.call}`),
  s: () => $("sort").click(),
  "/": () => $("search").focus(),
  Escape: () => {
    picked = null;
    state.call = null;
    describe();
    changed();
  },
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, [role=region]")) return;
  const action = actions[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
$("fit").addEventListener("click", () => show(0, whole));
$("in").addEventListener("click", () => zoom(2));
$("out").addEventListener("click", () => zoom(0.5));
$("worst").addEventListener("click", () => actions.w());
$("sort").addEventListener("click", () => {
  state.sort = !state.sort;
  $("sort").setAttribute("aria-pressed", String(state.sort));
  changed();
});
$("search").addEventListener("input", () => {
  state.words = $("search").value;
  changed();
});

// ---- findings

function fly({ at_us }) {
  show(at_us - whole / 50, at_us + whole / 50);
  canvas.focus();
}
$("findings").hidden = !data.findings.length;
for (const finding of data.findings) {
  const button = element("button", { type: "button" }, finding.text);
  button.addEventListener("click", () => fly(finding));
  $("findings")
    .querySelector("ul")
    .append(element("li", {}, button));
}

$("capture").textContent = `NCCL calls of ${data.capture}`;
$("verdict").textContent = data.verdict;
document.title = `${data.capture} - ncclscope view`;
function start() {
  read_address();
  $("sort").setAttribute("aria-pressed", String(state.sort));
  $("search").value = state.words;
  if (state.call !== null) pick(`call?call=${state.call}`).then(draw);
  draw();
  load();
}
addEventListener("hashchange", start);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
new ResizeObserver(() => {
  draw();
  clearTimeout(timer);
  timer = setTimeout(load, 60);
}).observe(canvas.parentElement);
start();
