// The rows of the picture, and the address, which holds what is shown: a link leads to the same place.

import { packed_rows } from "./packing.js";
import { by, group, type_buttons } from "./page.js";
import { data, whole } from "./sources.js";
import { now, state } from "./state.js";

// What is shown first: the typical step, with some of what is around it; else the whole run.
export function opening() {
  if (!data.typical) return [0, whole];
  const { from_us, to_us } = data.typical;
  const around = (to_us - from_us) / 20;
  return [from_us - around, to_us + around];
}

export function read_address() {
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

export function write_address() {
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

export function lay_rows() {
  now.rows = packed_rows(data.lanes, state);
  now.rows_number += 1;
  if (state.tall !== null && state.tall >= now.rows.length) state.tall = null;
  state.top = state.tall === null ? 0 : Math.min(state.top, now.rows.length - state.tall);
}
