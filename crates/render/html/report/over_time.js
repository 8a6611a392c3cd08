// Draws the run over time: curves that share one time axis, and above them steps, findings and deaths.
//
// A span can be dragged over the curves, or made with Shift and the arrow keys. It filters the tables for
// rows with calls in it: operations, ranks, functions and communicators. Figures in rows stay those of the
// whole run, and each table says whether it follows. The plot of operations by size follows by the event
// `ncclscope-span`, which names the operations with calls.
//
// Curves of other groups can be added above those of a group, and all of them can be laid into one plot.

import { even_ticks, share_end } from "../scales.js";
import { element, shape } from "../shapes.js";
import { percent, size } from "../spelling.js";
import { buckets, moment_by, moment_unit, rate, span_words, timeline, width_us } from "./buckets.js";
import { CURVES, is_dark, PRESETS, pins } from "./curves.js";
import { report } from "./data.js";
import { between, energy_in, mean_in, sum_in } from "./selection.js";
import { filter_tables } from "./span_tables.js";

const HEIGHT = 74;
const NAME = 16;
// Colours of curves: not the two that look like waiting and transfer.
const HUES = [0, 3, 4, 5, 6, 7];
const GAP = 26;
const STRIP = 30;

class OverTime {
  constructor(figure) {
    this.figure = figure;
    this.preset = PRESETS[0];
    // Curves of other groups, by name.
    this.added = [];
    // All curves are in one plot.
    this.together = false;
    this.span = null;
    this.at = null;
    const choices = element("div", { class: "choices", role: "group", "aria-label": "Curves" });
    for (const preset of PRESETS) {
      const button = element("button", { type: "button", "data-preset": preset.key }, preset.title);
      button.addEventListener("click", () => {
        this.preset = preset;
        this.draw();
        this.say();
      });
      choices.append(button);
    }
    this.buttons = [...choices.children];
    this.adder = element("select", { "aria-label": "Add a curve above these" });
    this.adder.addEventListener("change", () => {
      if (this.adder.value) this.added.push(this.adder.value);
      this.draw();
      this.say();
    });
    const about = { type: "button", title: "Lay all curves over each other" };
    this.layer = element("button", about, "In one plot");
    this.layer.addEventListener("click", () => {
      this.together = !this.together;
      this.draw();
    });
    this.chips = element("span", { class: "chips" });
    if (CURVES.size > 1) choices.append(this.adder, this.layer, this.chips);
    this.choices = choices;
    this.place = element("div");
    this.tip = element("div", { class: "tip", role: "status" });
    this.tip.hidden = true;
    this.selected = element("p", { class: "selected", role: "status" });
    this.hint = element(
      "p",
      { class: "hint" },
      "Line: mean over ranks; band: the rank with least to the rank with most. " +
        (is_dark.includes(true) ? "Grey: most calls have no GPU time. " : "") +
        "Drag over a span to see which rows of the tables have calls in it. " +
        "Arrow keys move, Shift and arrow keys select, Escape shows all.",
    );
    figure.append(choices, this.selected, this.place, this.tip, this.hint);
    new ResizeObserver(() => {
      if (this.place.clientWidth !== this.drawn_width) this.draw();
    }).observe(this.place);
    this.draw();
    this.select(null);
  }

  x(us) {
    const { left, right } = this.box;
    return left + ((right - left) * us) / (buckets * width_us);
  }

  // What is shown: what was added stands above.
  curves() {
    const own = this.preset.curves;
    return [...this.added.map((name) => CURVES.get(name)).filter((c) => !own.includes(c)), ...own];
  }

  choose() {
    for (const button of this.buttons)
      button.setAttribute("aria-pressed", String(button.dataset.preset === this.preset.key));
    this.layer.setAttribute("aria-pressed", String(this.together));
    const shown = new Set(this.curves());
    const groups = PRESETS.map((preset) => {
      const left = preset.curves.filter((c) => !shown.has(c));
      return element("optgroup", { label: preset.title }, ...left.map((c) => element("option", {}, c.name)));
    });
    const some = groups.filter((of) => of.children.length > 0);
    this.adder.replaceChildren(element("option", { value: "" }, "Add a curve\u2026"), ...some);
    const chips = this.added.map((name) => {
      const chip = element("button", { type: "button", title: "Take this curve away" }, `\u2715 ${name}`);
      chip.addEventListener("click", () => {
        this.added = this.added.filter((other) => other !== name);
        this.draw();
        this.say();
      });
      return chip;
    });
    this.chips.replaceChildren(...chips);
  }

  draw() {
    this.choose();
    const focused = this.place.contains(document.activeElement);
    this.drawn_width = this.place.clientWidth;
    const width = Math.max(260, this.place.clientWidth);
    const curves = this.curves();
    // In one plot, each has a line of its own for its name.
    const top_of = (i) => (this.together ? NAME * (i + 1) : i * (HEIGHT + GAP) + GAP);
    const plots = this.together ? NAME * curves.length + 8 + 2 * HEIGHT : curves.length * (HEIGHT + GAP);
    // The names of the axis and of the ticks stand in one line, or on a phone below each other.
    const foot = timeline.steps && width < 500 ? 50 : 36;
    const height = STRIP + plots + 4 + foot;
    const shares = curves.filter((c) => c.text === percent);
    this.share_end = share_end(shares.flatMap((c) => [...(c.high ?? c.bars), ...(c.line ?? [])]));
    this.box = { width, height, left: 4, right: width - 4, top: STRIP, bottom: height - foot };
    const svg = shape("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      tabindex: "0",
      "aria-label": `${this.preset.title} over time: arrow keys read the values`,
    });
    this.svg = svg;
    this.place.replaceChildren(svg);
    this.x_axis();
    for (const [i, c] of curves.entries()) this.curve(c, i, STRIP + top_of(i));
    this.strip();
    this.shade = shape("rect", { class: "span", y: STRIP, height: this.box.bottom - STRIP, x: 0, width: 0 });
    this.cross = shape("path", { class: "cross", d: "" });
    svg.append(this.shade, this.cross);
    this.show_span();
    this.listen();
    if (focused) svg.focus();
  }

  x_axis() {
    const { left, right, top, bottom } = this.box;
    const end = buckets * width_us;
    this.svg.append(shape("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
    for (const tick of even_ticks(0, end / moment_by, Math.max(2, Math.floor((right - left) / 80)))) {
      const x = this.x(tick * moment_by);
      this.svg.append(shape("path", { class: "grid", d: `M${x} ${top}V${bottom}` }));
      const anchor = x < left + 20 ? "start" : x > right - 20 ? "end" : "middle";
      this.svg.append(
        shape("text", { x, y: bottom + 16, "text-anchor": anchor }, `${+tick.toPrecision(6)} ${moment_unit}`),
      );
    }
    const title = "since the first moment that was recorded";
    this.svg.append(shape("text", { x: right, y: bottom + 31, "text-anchor": "end" }, title));
    const { steps } = timeline;
    if (!steps) return;
    // Pins stand above the ticks, so their name is here.
    const which = steps.every > 1 ? `every ${steps.every} steps` : "steps";
    const name = `ticks: ${which} of rank ${steps.rank ?? "?"}`;
    this.svg.append(shape("text", { class: "ticks", x: left, y: this.box.height - 5 }, name));
  }

  // A curve; its name stands above `top`.
  curve(c, index, top) {
    const { left, right } = this.box;
    const tall = this.together ? 2 * HEIGHT : HEIGHT;
    const bottom = this.together ? this.box.bottom - 4 : top + HEIGHT;
    const known = [...(c.high ?? c.bars), ...(c.line ?? [])].filter((v) => v !== null && v > 0);
    const most = Math.max(...known, 1e-12);
    const least = Math.min(...known);
    const low = c.logarithmic ? Math.log(least / 1.2) : 0;
    const end_of_scale = c.text === percent ? this.share_end : Math.max(most * 1.05, c.least ?? 0);
    const high = c.logarithmic ? Math.log(most * 1.2) : end_of_scale;
    const y = (v) =>
      bottom - (tall * ((c.logarithmic ? Math.log(Math.max(v, least / 1.2)) : v) - low)) / (high - low);
    const hue = HUES[index % HUES.length];
    const group = shape("g", { class: `curve c${hue}${c.part ? ` ${c.part}` : ""}` });
    const x = (bucket) => this.x(bucket * width_us);
    const steps = (values) =>
      values
        .map((v, i) =>
          v === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${x(i)} ${y(v)}H${x(i + 1)}`,
        )
        .join("");
    // Areas would hide each other.
    if (c.dark && !this.together) {
      const d = is_dark.map((dark, i) => (dark ? `M${x(i)} ${top}H${x(i + 1)}V${bottom}H${x(i)}z` : ""));
      group.append(shape("path", { class: "dark", d: d.join("") }));
    }
    if (c.bars && !this.together) {
      const path = c.bars
        .map((v, i) => (v > 0 ? `M${x(i)} ${bottom}V${y(v)}H${x(i + 1)}V${bottom}z` : ""))
        .join("");
      group.append(shape("path", { class: "held", d: path }));
    } else if (this.together) {
      group.append(shape("path", { class: "line", d: steps(c.bars ?? c.line) }));
    } else {
      const areas = c.low
        .map((v, i) => (v === null ? "" : `M${x(i)} ${y(v)}H${x(i + 1)}V${y(c.high[i])}H${x(i)}z`))
        .join("");
      group.append(
        shape("path", { class: "band", d: areas }),
        shape("path", { class: "line", d: steps(c.line) }),
      );
    }
    group.append(shape("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
    group.append(shape("rect", { class: "key", x: left, y: top - 14, width: 9, height: 9 }));
    const name = shape("text", { class: "title", x: left + 14, y: top - 6 }, c.name);
    // What rounds to nothing is not nothing.
    const told = known.length === 0 ? "none" : c.text(most).replace(/^0\.0 %$/, "under 0.1 %");
    const limit = /^[nu]/.test(told) ? told : `at most ${told}`;
    const end = shape("text", { x: right, y: top - 6, "text-anchor": "end" }, limit);
    group.append(name, end);
    this.svg.append(group);
    // On a phone there is room for the figure alone.
    if (name.getComputedTextLength() + end.getComputedTextLength() + 24 > right - left)
      end.textContent = told;
  }

  strip() {
    const { steps } = timeline;
    const group = shape("g", { class: "strip" });
    for (const at of steps?.begins_us ?? [])
      group.append(shape("path", { class: "step", d: `M${this.x(at)} ${STRIP - 8}v8` }));
    for (const pin of pins) {
      const x = Math.min(Math.max(this.x(pin.at_us), this.box.left + 5), this.box.right - 5);
      const d = pin.death ? `M${x - 5} 3l10 10m0 -10l-10 10` : `M${x} 16l-6 -9a6 6 0 1 1 12 0z`;
      const mark = shape("path", {
        class: pin.death ? "death" : "pin",
        d,
        tabindex: "0",
        role: "img",
        "aria-label": pin.text,
      });
      const show = () => this.show_tip(x, 20, pin.death ? "A rank died" : "Finding", [pin.text]);
      mark.addEventListener("pointerenter", show);
      mark.addEventListener("focus", show);
      mark.addEventListener("blur", () => {
        this.tip.hidden = true;
      });
      group.append(mark);
    }
    this.svg.append(group);
  }

  bucket_at(event) {
    const at = this.svg.getBoundingClientRect();
    const x = ((event.clientX - at.left) * this.box.width) / at.width;
    const share = (x - this.box.left) / (this.box.right - this.box.left);
    return Math.min(Math.max(Math.floor(share * buckets), 0), buckets - 1);
  }

  listen() {
    const { svg } = this;
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.target.closest(".pin, .death")) return;
      from = this.bucket_at(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (event.target.closest?.(".pin, .death")) return;
      const now = this.bucket_at(event);
      if (from === null) return this.point_at(now);
      this.tip.hidden = true;
      this.shown_span(between(from, now));
    });
    svg.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const now = this.bucket_at(event);
      // A click shows all again.
      this.select(now === from ? null : between(from, now));
      this.anchor = null;
      from = null;
    });
    svg.addEventListener("pointercancel", () => {
      from = null;
      this.show_span();
    });
    svg.addEventListener("pointerleave", () => this.point_at(null));
    svg.addEventListener("blur", () => this.point_at(null));
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        this.anchor = null;
        return this.select(null);
      }
      const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -buckets, End: buckets }[
        event.key
      ];
      if (!by || event.target !== svg) return;
      event.preventDefault();
      const was = this.at ?? (by > 0 ? -1 : buckets);
      const now = Math.min(Math.max(was + by, 0), buckets - 1);
      if (event.shiftKey) {
        this.anchor ??= Math.min(Math.max(was, 0), buckets - 1);
        this.select(between(this.anchor, now));
      } else {
        this.anchor = null;
      }
      this.point_at(now);
    });
  }

  point_at(bucket) {
    this.at = bucket;
    if (bucket === null) {
      this.tip.hidden = true;
      this.cross.setAttribute("d", "");
      return;
    }
    const x = this.x((bucket + 0.5) * width_us);
    this.cross.setAttribute("d", `M${x} ${STRIP}V${this.box.bottom}`);
    const lines = this.curves().map((c) => {
      if (c.bars) return `${c.name}: ${c.text(c.bars[bucket])} of the time`;
      if (c.dark && is_dark[bucket]) return `${c.name}: not known, most calls have no GPU time`;
      if (c.line[bucket] === null) return `${c.name}: ${c.none ?? "no call"}`;
      const around = c.spread ? ` (${c.text(c.low[bucket])} to ${c.text(c.high[bucket])}: ${c.spread})` : "";
      const ranks =
        !c.spread && c.low[bucket] !== c.high[bucket]
          ? ` (${c.text(c.low[bucket])} to ${c.text(c.high[bucket])} over ${c.over ?? "ranks"})`
          : "";
      return `${c.name}: ${c.text(c.line[bucket])}${around}${ranks}`;
    });
    this.show_tip(x, STRIP + 8, span_words([bucket, bucket + 1]), lines);
  }

  show_tip(x, y, title, lines) {
    this.tip.replaceChildren(element("b", {}, title), ...lines.map((line) => element("span", {}, line)));
    this.tip.hidden = false;
    const scale = this.place.clientWidth / this.box.width;
    const most = this.figure.clientWidth - this.tip.offsetWidth;
    const beside = x * scale + 14 > most ? x * scale - this.tip.offsetWidth - 14 : x * scale + 14;
    this.tip.style.left = `${Math.max(0, Math.min(beside, most))}px`;
    this.tip.style.top = `${this.place.offsetTop + y * scale}px`;
  }

  shown_span([from, to]) {
    const x = this.x(from * width_us);
    this.shade.setAttribute("x", x);
    this.shade.setAttribute("width", this.x(to * width_us) - x);
  }

  show_span() {
    this.shown_span(this.span ?? [0, 0]);
  }

  select(span) {
    this.span = span;
    this.show_span();
    this.say();
    filter_tables(span);
  }

  // Says what is in the span, in figures of what is shown.
  say() {
    const { span } = this;
    const seen = span ?? [0, buckets];
    const total = (field) => (timeline[field] ? sum_in(timeline[field].sum, seen) : null);
    const length = (seen[1] - seen[0]) * width_us * timeline.ranks;
    const parts = [
      `${total("calls").toLocaleString("en")} calls`,
      size(total("bytes")),
      `${percent(total("nccl") / length)} of the time in NCCL`,
    ];
    // Known of little, waiting says nothing about the rest.
    const known = total("waiting") + total("transfer");
    if (timeline.waiting && 2 * known >= total("nccl"))
      parts.push(`${percent(total("waiting") / length)} waiting for the last rank`);
    const { gpus } = report.nodes?.energy ?? {};
    const energy = energy_in(timeline.sampled?.power_w?.mean ?? [], gpus, width_us, seen);
    if (energy) {
      const of = energy.part < 0.995 ? `, of ${percent(energy.part)} of it` : "";
      parts.push(`${rate(energy.joules, "J")} by ${gpus} GPU${gpus === 1 ? "" : "s"}${of}`);
    }
    const means = this.curves().flatMap((c) => {
      // A mean of medians says nothing.
      const mean = c.spread ? null : mean_in(c.bars ?? c.line, seen);
      return mean === null ? [] : [`${c.name} ${c.text(mean)}`];
    });
    const words = `${span ? span_words(span) : "The whole run"}: ${parts.join(", ")}.`;
    this.selected.replaceChildren(words);
    const text = `Means: ${means.join("; ")}.`;
    if (means.length > 0) this.selected.append(element("span", { class: "means" }, text));
    if (span) {
      const clear = element("button", { type: "button" }, "Show all");
      clear.addEventListener("click", () => this.select(null));
      this.selected.append(" ", clear);
    }
  }
}

const place = document.getElementById("over-time");
if (place && PRESETS.length) {
  place.hidden = false;
  document.getElementById("over-time-without").hidden = true;
  new OverTime(place);
}
