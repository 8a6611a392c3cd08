// Asks the source for what is shown, once it is needed, and changes what is shown.

import { draw, layout } from "./drawing.js";
import { mix_rows } from "./heat.js";
import { canvas } from "./page.js";
import { lay_rows, write_address } from "./rows.js";
import { source, whole } from "./sources.js";
import { now, shown_rows, state } from "./state.js";

let asked = 0;
let timer = null;

function needs_loading() {
  if (!now.loaded || now.loaded.number !== now.rows_number) return true;
  if (now.loaded.top !== state.top || now.loaded.tall !== state.tall) return true;
  const length = state.to - state.from;
  if (state.from < now.loaded.from - 1e-6 || state.to > now.loaded.to + 1e-6) return true;
  return length < 0.7 * now.loaded.length || length > 1.5 * now.loaded.length;
}

async function load() {
  const number = ++asked;
  const seen = shown_rows();
  const lanes = seen.flatMap((row) => row.lanes);
  const length = state.to - state.from;
  // A margin, so that the picture can be moved meanwhile.
  const [from, to] = [Math.max(state.from - length / 2, 0), Math.min(state.to + length / 2, whole)];
  const wide = Math.max(layout().width, 1);
  const is_of = { number: now.rows_number, top: state.top, tall: state.tall, from, to, length };
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
  now.loaded = {
    ...is_of,
    heat,
    lanes,
    rows: seen,
    covered: calls.covered,
    calls: calls.calls.map(([call, lane, begin, length, transfer, name, kind, operation, error, type]) => ({
      call,
      lane,
      begin,
      length,
      transfer,
      name,
      kind,
      operation,
      error,
      // Of an event, or of the event that a state is of.
      type: type ?? null,
    })),
  };
  mix_rows();
  const is_known = calls.covered.some(([a, b]) => a < state.to && b > state.from);
  canvas.dataset.calls = is_known ? String(now.loaded.calls.length) : "too many";
  canvas.dataset.ready = String(number);
  draw();
}

export function load_soon() {
  if (timer !== null || !needs_loading()) return;
  timer = setTimeout(() => {
    timer = null;
    load().then(load_soon);
  }, 40);
}

let frame = null;
export function draw_soon() {
  if (frame !== null) return;
  frame = requestAnimationFrame(() => {
    frame = null;
    draw();
  });
}

export function changed() {
  write_address();
  draw_soon();
  load_soon();
}

export function rearranged() {
  lay_rows();
  changed();
}

export function show(from, to) {
  const length = Math.min(Math.max(to - from, 0.5), whole);
  const middle = (from + to) / 2;
  state.from = Math.min(Math.max(middle - length / 2, 0), whole - length);
  state.to = state.from + length;
  changed();
}

// Shows some rows more or less, around a row.
function show_rows(count, around) {
  const tall = Math.max(1, Math.round(count));
  if (tall >= now.rows.length) {
    state.tall = null;
    state.top = 0;
    return;
  }
  const before = (around - state.top) / (state.tall ?? now.rows.length);
  state.tall = tall;
  state.top = Math.min(Math.max(Math.round(around - before * tall), 0), now.rows.length - tall);
}

// So tall is a row that can be told from others.
const READABLE = 14;

export function zoom(factor, at = (state.from + state.to) / 2, row = null) {
  const area = layout().area;
  const seen = state.tall ?? now.rows.length;
  const readable = Math.max(1, Math.floor(area / READABLE));
  // Rows that are too thin grow with the time, until they can be read.
  if (factor > 1 && seen > readable)
    show_rows(Math.max(seen / factor, readable), row ?? state.top + seen / 2);
  else if (factor < 1 && state.tall !== null) show_rows(seen / factor, row ?? state.top + seen / 2);
  show(at - (at - state.from) / factor, at + (state.to - at) / factor);
}
export const pan = (share) => {
  const distance = share * (state.to - state.from);
  show(state.from + distance, state.to + distance);
};
export function pan_rows(count) {
  if (state.tall === null) return;
  state.top = Math.min(Math.max(state.top + count, 0), now.rows.length - state.tall);
  changed();
}
export function show_all() {
  [state.top, state.tall] = [0, null];
  show(0, whole);
}
