// Mouse, keys and buttons.

import { fly } from "./findings.js";
import { changed, draw_soon, pan, pan_rows, rearranged, show, show_all, zoom } from "./loading.js";
import { go, go_rank, let_go, picked_is } from "./operation.js";
import {
  buttons,
  by,
  canvas,
  group,
  has_events,
  has_kernels,
  search,
  tip,
  type_buttons,
  types,
} from "./page.js";
import { point, under } from "./pointer.js";
import { opening } from "./rows.js";
import { data, kept, root, source } from "./sources.js";
import { now, state } from "./state.js";

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
    const by_rows = Math.round(across / now.layout.each);
    state.top = Math.min(Math.max(drag.top - by_rows, 0), now.rows.length - state.tall);
  }
  const us = (along * (drag.to - drag.from)) / now.layout.width;
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
canvas.addEventListener("pointercancel", () => {
  drag = null;
});
canvas.addEventListener("pointerleave", () => {
  tip.hidden = true;
  now.pointed = null;
  now.asked_of = null;
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
    if (along) pan((event.deltaX || event.deltaY) / now.layout.width);
    else zoom(Math.exp(-event.deltaY / 400), found.us, found.row ? found.index : null);
  },
  { passive: false },
);

export function toggle(name, is_on) {
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
  t: () => data.typical && show(...opening()),
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
buttons.typical.addEventListener("click", () => actions.t());
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
  show_types();
  rearranged();
});
export function show_types() {
  types.hidden = !state.events;
  for (const [type, of_type] of type_buttons)
    of_type.setAttribute("aria-pressed", String(!state.hidden.has(type)));
}
for (const [type, of_type] of type_buttons) {
  of_type.addEventListener("click", () => {
    if (!state.hidden.delete(type)) state.hidden.add(type);
    show_types();
    rearranged();
  });
}
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
