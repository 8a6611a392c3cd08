// Findings that lead to their moment, and critical paths.

import { element } from "../shapes.js";
import { time } from "../spelling.js";
import { show } from "./loading.js";
import { button, canvas, findings, HEADING, MOST_SEGMENTS, path, plural } from "./page.js";
import { data, whole } from "./sources.js";

// What holds for the whole run has no moment.
export function fly({ at_us, from_us, to_us }) {
  if (at_us === null) show(0, whole);
  else if (from_us !== null) show(from_us, to_us);
  else show(at_us - whole / 50, at_us + whole / 50);
  canvas.focus();
}
findings.hidden = !data.findings.length;
if (data.findings.length) {
  const list = element("ul");
  for (const finding of data.findings) {
    const title = finding.at_us === null ? "It holds for the whole run" : "Show this moment";
    const to = button(finding.text, title);
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
