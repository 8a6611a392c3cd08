// What is under the pointer, and the words for it.

import { element } from "../shapes.js";
import { percent, three, time } from "../spelling.js";
import { STATES_FROM, STRIP } from "./drawing.js";
import { draw_soon } from "./loading.js";
import { canvas, moment, rank_of, tip, title_of } from "./page.js";
import { data, source } from "./sources.js";
import { now, shown_rows, state } from "./state.js";

export function under(event) {
  const at = now.layout;
  const box = canvas.getBoundingClientRect();
  const [px, py] = [event.clientX - box.left, event.clientY - box.top];
  const us = state.from + ((state.to - state.from) * (px - at.left)) / at.width;
  const index = Math.floor((py - at.top) / at.each);
  const row = py >= at.top && px >= at.left ? shown_rows()[index] : undefined;
  const per_px = (state.to - state.from) / at.width;
  let call = null;
  if (row && now.loaded) {
    const lanes = new Set(row.lanes);
    for (const c of now.loaded.calls) {
      if (!lanes.has(c.lane) || us < c.begin - per_px || state.hidden.has(c.type)) continue;
      // States are in the lower part of their event.
      if (c.kind === "state" && (py - at.top) / at.each - index < STATES_FROM) continue;
      if (us > c.begin + Math.max(c.length, per_px) + per_px) continue;
      // Of those that overlap, the shortest: it lies on the others.
      if (!call || c.length <= call.length) call = c;
    }
  }
  const is_near = (f) => f.at_us !== null && Math.abs((f.at_us - us) / per_px) < 9;
  const finding = py < STRIP ? data.findings.find(is_near) : null;
  return { px, py, us, row, index: state.top + index, call, finding };
}

function last_of(call) {
  const is_last = (c) => c.operation === call.operation && c.transfer !== null && c.length - c.transfer <= 0;
  return call.operation === null ? null : now.loaded.calls.find(is_last);
}

function words_of(call) {
  const lines = [];
  const waited = call.transfer === null ? null : call.length - call.transfer;
  const last = last_of(call);
  const is_kernel = call.kind === "kernel" || call.kind === "nccl_kernel";
  if (call.kind === "open")
    lines.push(`Not finished when the recording ended: open for ${time(call.length)} or more`);
  else if (call.kind === "host") lines.push(`API call of ${time(call.length)}; no GPU time`);
  else if (call.kind === "state") return [`State of an event, at ${moment(call.begin)}`];
  else if (call.kind === "event") lines.push("Event of NCCL");
  else if (is_kernel && waited === null) lines.push(`Ran for ${time(call.length)}, seen in a kernel window`);
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

let told = new Map();
async function tell_more(call) {
  now.asked_of = call.call;
  if (!told.has(call.call)) {
    await new Promise((done) => setTimeout(done, 120));
    if (now.asked_of !== call.call) return;
    if (told.size > 500) told = new Map();
    told.set(call.call, await source.call(call.call));
  }
  if (now.asked_of === call.call && now.pointed?.event) point(now.pointed.event);
}

export function point(event) {
  const found = under(event);
  now.pointed = found.px >= now.layout.left ? { x: found.px, event } : null;
  let title = "";
  let lines = [];
  if (found.finding) [title, lines] = ["Finding", [found.finding.text]];
  else if (found.call) {
    const more = told.get(found.call.call);
    title = `${data.names[found.call.name]}, ${title_of(found.call.lane)}`;
    lines = [...words_of(found.call), ...(more ? more_words(more) : [])];
    if (!more && now.asked_of !== found.call.call) tell_more(found.call);
  } else if (found.row && !found.row.heading && now.loaded?.mixed) {
    const { heat, tall_px, mixed } = now.loaded;
    const bin = Math.floor((found.us - heat.begin) / heat.width);
    const line = Math.floor(((found.index - now.loaded.top) * tall_px) / now.loaded.rows.length);
    const is_covered = now.loaded.covered.some(([a, b]) => a <= found.us && found.us < b);
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
      if (now.loaded.rows.length > tall_px) lines.push("of the rows here, the one that waits least");
    }
  }
  if (!found.call) now.asked_of = null;
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
