// Draws the picture: axis, heat, calls, waits, the critical path and names.

import { even_ticks } from "../scales.js";
import { time } from "../spelling.js";
import { KEY } from "./packing.js";
import { canvas, context, event_colour, moment, plural, where } from "./page.js";
import { data, root, source, whole } from "./sources.js";
import { now, shown_rows, state } from "./state.js";

export const STRIP = 30;
const WAITERS = 34;
const AXIS = 26;

// Names of lanes are whole, if they leave most of the width to the lanes.
const NAMES_WIDE = [190, 340];
let names_wide = { rows: null, wide: NAMES_WIDE[0] };
function left_of(rows) {
  if (names_wide.rows !== rows) {
    context.font = "12px sans-serif";
    const wide = rows.slice(0, 500).map((row) => context.measureText(row.title).width + 14);
    const most = Math.min(NAMES_WIDE[1], canvas.clientWidth * 0.3);
    names_wide = { rows, wide: Math.round(Math.max(NAMES_WIDE[0], Math.min(Math.max(0, ...wide), most))) };
  }
  return names_wide.wide;
}

export function layout() {
  const wide = canvas.clientWidth;
  const seen = state.tall ?? now.rows.length;
  const left = wide < 600 ? 76 : left_of(now.rows);
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

const GROUND = ["card", "text", "soft", "line", "bad", "ink", "on-transfer"];
const NAMES = [...GROUND, "wait", "transfer", "other", "host", "kernel", "event-light"];
// The part of an event's bar above its states.
export const STATES_FROM = 0.6;
export const palette = () => {
  const style = getComputedStyle(root);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
};
export const rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

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

export function draw() {
  // In a folded section there is no room. Once there is, the observer of its width draws.
  if (!canvas.clientWidth) return;
  now.layout = layout();
  const at = now.layout;
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(at.wide * scale) || canvas.height !== Math.round(at.height * scale)) {
    canvas.width = Math.round(at.wide * scale);
    canvas.height = Math.round(at.height * scale);
    canvas.style.height = `${at.height}px`;
  }
  canvas.dataset.lanes = state.tall ?? now.rows.length;
  canvas.dataset.place = `${at.left} ${at.top} ${at.bottom}`;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const colours = palette();
  context.fillStyle = colours.card;
  context.fillRect(0, 0, at.wide, at.height);
  const x = (us) => at.left + (at.width * (us - state.from)) / (state.to - state.from);
  const is_current = now.loaded?.number === now.rows_number;
  if (is_current) {
    draw_heat(at, x, colours);
    draw_waiters(at, x, colours);
  }
  draw_axis(at, x, colours);
  if (is_current) draw_calls(at, x, colours);
  draw_path(at, x, colours);
  draw_ends(at, x, colours);
  draw_names(at, colours);
  draw_strip(at, x, colours);
  if (now.pointed?.x !== undefined) {
    context.strokeStyle = colours.soft;
    context.strokeRect(now.pointed.x, at.top, 0, at.bottom - at.top);
  }
  say_where();
}

function say_where() {
  const lanes = now.rows.filter((row) => !row.heading).length;
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
  const each = (state.tall ?? now.rows.length) / Math.max(now.loaded?.tall_px ?? 1, 1);
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
  const { heat, waiting, ranks } = now.loaded;
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
  const { heat, image } = now.loaded;
  context.save();
  context.beginPath();
  context.rect(at.left, at.top, at.width, at.bottom - at.top);
  context.clip();
  context.imageSmoothingEnabled = false;
  const from = x(heat.begin);
  const to = x(heat.begin + heat.bins * heat.width);
  // While rows are moved, what was loaded stays where it belongs.
  const top = at.top + (now.loaded.top - state.top) * at.each;
  context.drawImage(image, from, top, to - from, now.loaded.rows.length * at.each);
  // Where calls are known one by one they take the place of the shares.
  context.fillStyle = colours.card;
  for (const [begin, end] of now.loaded.covered)
    context.fillRect(x(begin), at.top, x(end) - x(begin), at.bottom - at.top);
  context.restore();
}

// The row of each lane, in the picture.
function rows_of_lanes() {
  const found = new Map();
  for (const [at, row] of shown_rows().entries()) for (const lane of row.lanes) found.set(lane, at);
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
  const operation = now.picked?.operation ?? null;
  const beside = new Set([now.picked?.parent, ...(now.picked?.same ?? [])].map((other) => other?.call));
  const marked = [];
  for (const call of now.loaded.calls) {
    const row = row_of.get(call.lane);
    if (row === undefined || call.begin > state.to || call.begin + call.length < state.from) continue;
    if (state.hidden.has(call.type)) continue;
    const y = at.top + row * at.each + gap / 2;
    const from = x(call.begin);
    const to = Math.max(x(call.begin + call.length), from + 0.7);
    const box = { from, to, y, tall, call };
    draw_call(box, x, colours, open);
    const is_same = operation !== null && call.operation === operation;
    if (call.call === now.picked?.call || is_same || beside.has(call.call)) marked.push(box);
    if (to - from > 90 && tall > 14 && call.kind !== "state") {
      const left = Math.max(from, at.left) + 4;
      // The name stands where it begins: on waiting, or on transfer.
      const is_transfer = call.transfer !== null && x(call.begin + call.length - call.transfer) <= left;
      const is_plain = ["open", "host"].includes(call.kind);
      context.fillStyle = is_plain ? colours.text : is_transfer ? colours["on-transfer"] : colours.ink;
      context.font = "12px sans-serif";
      context.textAlign = "left";
      const middle = call.kind === "event" ? (tall * STATES_FROM) / 2 : tall / 2;
      const name = fitting(data.names[call.name], Math.min(to, at.right) - left - 4);
      // Of a name that hardly fits, nothing is better than one letter.
      if (name.length > 3) context.fillText(name, left, y + middle + 4);
    }
  }
  for (const { from, to, y, call } of marked) {
    context.strokeStyle = colours.text;
    context.lineWidth = call.call === now.picked.call ? 2.5 : 1.5;
    context.strokeRect(from - 1, y - 1, to - from + 2, tall + 2);
    context.lineWidth = 1;
  }
  draw_parent(marked, colours);
  canvas.dataset.marked = marked.length;
  context.restore();
}

// A line from the parent of the picked event to it.
function draw_parent(marked, colours) {
  const box = (of) => marked.find((one) => one.call.call === of);
  const [parent, own] = [box(now.picked?.parent?.call), box(now.picked?.call)];
  if (!parent || !own) return;
  const [above, below] = parent.y < own.y ? [parent, own] : [own, parent];
  context.strokeStyle = colours.text;
  context.beginPath();
  context.moveTo(Math.max(own.from, parent.from), above.y + above.tall);
  context.lineTo(own.from, below.y);
  context.stroke();
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
  if (call.kind === "state") {
    // A segment until the next state, told apart by its edge.
    const top = y + STATES_FROM * tall;
    fill(event_colour(call.type, colours["event-light"]), from, to, top, tall - (top - y));
    context.globalAlpha = 0.35;
    fill(colours.card, from, to, top, tall - (top - y));
    context.globalAlpha = 1;
    return fill(colours.text, from, Math.min(from + 1, to), top, tall - (top - y));
  }
  if (call.kind === "event") return fill(event_colour(call.type, colours["event-light"]), from, to);
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
function fitting(text, room) {
  const wide = Math.floor(room);
  const key = `${context.font} ${wide} ${text}`;
  if (!fits.has(key)) {
    if (fits.size > 5000) fits.clear();
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

// Where the recording of a rank ended before the run did: a cross, and what happened.
function draw_ends(at, x, colours) {
  const ended = shown_rows()
    .map((row, index) => ({ end: row.ended, y: at.top + index * at.each }))
    .filter(({ end }) => end && x(end.at_us) >= at.left && x(end.at_us) <= at.right);
  canvas.dataset.ends = ended.length;
  context.strokeStyle = context.fillStyle = colours.bad;
  context.font = "12px sans-serif";
  for (const { end, y } of ended) {
    const middle = y + at.each / 2;
    const half = Math.min(6, at.each / 2);
    // Whole at the edge of the picture, too.
    const px = Math.min(Math.max(x(end.at_us), at.left + half), at.right - half);
    context.lineWidth = 2.5;
    context.beginPath();
    context.moveTo(px - half, middle - half);
    context.lineTo(px + half, middle + half);
    context.moveTo(px - half, middle + half);
    context.lineTo(px + half, middle - half);
    context.stroke();
    context.lineWidth = 1;
    if (at.each < 13) continue;
    const wide = context.measureText(end.text).width;
    const is_right = px + half + 6 + wide < at.right;
    const left = is_right ? px + half + 6 : px - half - 6 - wide;
    if (left < at.left) continue;
    // On calls the words have a ground of their own.
    context.fillStyle = colours.card;
    context.fillRect(left - 2, middle - 8, wide + 4, 16);
    context.fillStyle = colours.bad;
    context.textAlign = "left";
    context.fillText(end.text, left, middle + 4);
  }
}

function draw_names(at, colours) {
  context.textAlign = "left";
  let free = -Infinity;
  const seen = shown_rows();
  const write = (row, index) => {
    const y = at.top + (index + 0.5) * at.each + 4;
    context.font = row.heading ? "bold 12px sans-serif" : "12px sans-serif";
    context.fillStyle = row.heading ? colours.soft : colours.text;
    const title = at.left > 100 || row.heading || row.depth > 0 ? row.title : row.short;
    const left = row.heading ? 2 : 6;
    context.fillText(fitting(title, at.left - left - 4), left, y);
    return y;
  };
  // Headings first: names give way to them.
  const taken = [];
  if (at.each < 13) {
    seen.forEach((row, index) => {
      const y = at.top + (index + 0.5) * at.each + 4;
      if (!row.heading || y - free < 13) return;
      free = write(row, index);
      taken.push(free);
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
    if (at_us === null) continue;
    const px = x(at_us);
    if (px < at.left || px > at.right) continue;
    context.fillStyle = colours.bad;
    context.beginPath();
    context.arc(px, 9, 6, 0.8 * Math.PI, 0.2 * Math.PI);
    context.lineTo(px, 21);
    context.fill();
  }
}
