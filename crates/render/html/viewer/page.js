// Words of the viewer, and the elements of its page.

import { element } from "../shapes.js";
import { data, kept, root, whole } from "./sources.js";
import { state } from "./state.js";

// Moments are in the unit of the whole run, with as many digits as tell a thousandth of what is seen apart.
const [moment_unit, moment_by] = whole >= 2e6 ? ["s", 1e6] : whole >= 2e3 ? ["ms", 1e3] : ["µs", 1];
export function moment(us, apart = (state.to - state.from) / 1000) {
  const digits = Math.min(Math.max(0, -Math.floor(Math.log10(apart / moment_by) + 1e-9)), 9);
  return `${(us / moment_by).toFixed(us ? digits : 0)} ${moment_unit}`;
}
export const rank_of = (lane) => data.lanes[lane].who;
export const title_of = (lane) => `${data.lanes[lane].who}: ${data.lanes[lane].role}`;
export const plural = (count, one, many = `${one}s`) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

// ---- the page's elements

// In a report the viewer has a heading of its own.
export const HEADING = kept ? "h3" : "h2";
export const has_kernels = data.lanes.some((lane) => lane.kernels);
export const has_events = data.lanes.some((lane) => lane.events);
// Types of events that were recorded, and their colours: hue and saturation. Types of one level are alike.
const EVENT_COLOURS = {
  GroupApi: [245, 35],
  CollApi: [325, 25],
  P2pApi: [355, 25],
  Group: [270, 65],
  Coll: [315, 60],
  P2p: [345, 60],
  KernelLaunch: [25, 30],
  KernelCh: [215, 60],
  KernelPhase: [215, 30],
  ProxyOp: [160, 60],
  ProxyStep: [185, 60],
  ProxyCtrl: [210, 8],
  NetPlugin: [110, 40],
  CeColl: [250, 60],
  CeSync: [235, 25],
  CeBatch: [250, 25],
};
const recorded_types = new Set(data.lanes.flatMap((lane) => lane.types ?? []));
const event_types = Object.keys(EVENT_COLOURS).filter((type) => recorded_types.has(type));
export const event_colour = (type, light) => {
  const [hue, saturation] = EVENT_COLOURS[type] ?? [0, 0];
  return `hsl(${hue} ${saturation}% ${light})`;
};
export const button = (text, title, more = {}) => element("button", { type: "button", title, ...more }, text);
function chooser(label, title, options) {
  const select = element("select", { title });
  for (const [value, text] of options) select.append(element("option", { value }, text));
  return { select, label: element("label", {}, label, select) };
}
export const buttons = {
  fit: button("Whole run", "Show the whole run (0)"),
  typical: button("Typical step", "Show one typical step: a rank that waits, and whom it waits for (t)"),
  in: button("+", "Zoom in (+)", { "aria-label": "Zoom in" }),
  out: button("\u2212", "Zoom out (-)", { "aria-label": "Zoom out" }),
  worst: button("Longest wait", "The call that waited longest for what holds the job up, then the next (w)"),
  sort: button("Late ranks first", "Ranks that wait least come first: the others wait for them (s)", {
    "aria-pressed": "false",
  }),
  kernels: button("Kernels", "Show what ran in kernel windows (k)", { "aria-pressed": "true" }),
  events: button("Events", "Show every event that NCCL told the profiler of (e)", {
    "aria-pressed": "false",
  }),
};
export const by = chooser("A row per ", "What a row of the picture is", [
  ["communicator", "communicator"],
  ["stream", "stream"],
  ["thread", "thread"],
  ["rank", "rank"],
]);
export const group = chooser("Groups ", "Put rows together", [
  ["", "none"],
  ["host", "by host"],
  ["communicator", "by communicator"],
]);
export const search = element("input", {
  type: "search",
  placeholder: "rank 3, rank 7",
  title: "Show rows with any of these in their names (/)",
});
export const canvas = element("canvas", {
  tabindex: "0",
  role: "img",
  "aria-label": "Ranks from top to bottom over time: orange is waiting. Keys are listed below.",
});
export const context = canvas.getContext("2d");
export const tip = element("div", { class: "tip", role: "status" });
tip.hidden = true;
export const where = element("p", { class: "where", role: "status" });
export const findings = element("div", { class: "findings" });
export const path = element("div", { class: "findings" });
// Segments of the critical path that are listed.
export const MOST_SEGMENTS = 50;
export const detail = element("div", { class: "one-call", "aria-live": "polite" });
detail.hidden = true;

const KEYS = [
  ["wait", "waiting for the last rank"],
  ["transfer", "transfer"],
  ["other", "in NCCL, waiting not known"],
  ["host", "no GPU time: the API call"],
  ["open", "not finished at the end"],
  ...(has_kernels ? [["kernel", "compute kernel, in a kernel window"]] : []),
  ...(has_events ? [["event", "event of NCCL, a colour for each type; its states are below it"]] : []),
];
// A button for each type of event: its colour, and whether it is shown.
export const types = element("div", { class: "bar types", role: "group", "aria-label": "Types of events" });
types.hidden = true;
export const type_buttons = new Map(
  event_types.map((type) => {
    const swatch = element("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = event_colour(type, "var(--event-light)");
    const of_type = element("button", { type: "button", title: `Show events of type ${type}` }, swatch, type);
    return [type, of_type];
  }),
);
types.append(...type_buttons.values());
const legend = element(
  "ul",
  { class: "legend", "aria-label": "Colours" },
  ...KEYS.map(([name, text]) => element("li", {}, element("span", { class: name }), text)),
  element("li", {}, element("span", { class: "last" }), "last to arrive"),
  element("li", {}, element("span", { class: "whisker" }), "error of the clock"),
  ...(data.path ? [element("li", {}, element("span", { class: "on-path" }), "critical path of a step")] : []),
  ...(data.lanes.some((lane) => lane.ended)
    ? [element("li", {}, element("span", { class: "ended" }, "\u2715"), "recording ended before the run")]
    : []),
);
const hint = element(
  "p",
  { class: "hint" },
  "Wheel or + and \u2212 zoom, drag or arrow keys move, Shift and drag zooms into a span. Click a call to " +
    "mark it on every rank; up and down go to another rank of it, n and p to the next and the previous of " +
    "its kind, " +
    (data.waits ? "w to the longest wait, " : "") +
    "/ searches, Escape lets go, 0 shows the whole run" +
    (data.typical ? ", t one typical step." : "."),
);
root.append(
  element(
    "div",
    { class: "bar", role: "group", "aria-label": "View" },
    buttons.fit,
    ...(data.typical ? [buttons.typical] : []),
    buttons.in,
    buttons.out,
    ...(data.waits ? [buttons.worst] : []),
    buttons.sort,
    ...(has_kernels ? [buttons.kernels] : []),
    ...(has_events ? [buttons.events] : []),
    by.label,
    group.label,
    element("label", {}, "Ranks ", search),
  ),
  types,
  where,
  element("div", { class: "drawing" }, canvas, tip),
  legend,
  hint,
  findings,
  path,
  detail,
);
