// What both plots of operations have in common: a frame with axes, marks and choices.

import { element, shape } from "../shapes.js";

export const COLOURS = 8;

export function choice(title, name, options, chosen, on_change) {
  const select = element("select", { "aria-label": name });
  for (const [value, text] of options) {
    const option = element("option", { value }, text);
    option.selected = value === chosen;
    select.append(option);
  }
  select.addEventListener("change", () => on_change(select.value));
  return element("label", {}, title, select);
}

// One mark for each colour, so that colour is not the only carrier.
export function dot(kind, x, y, radius, css) {
  const r = radius;
  const paths = [
    null,
    `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
    `M${x} ${y - 1.3 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}z`,
    `M${x} ${y - 1.4 * r}L${x + 1.4 * r} ${y}L${x} ${y + 1.4 * r}L${x - 1.4 * r} ${y}z`,
    `M${x} ${y + 1.3 * r}L${x + 1.2 * r} ${y - r}H${x - 1.2 * r}z`,
    `M${x - 1.4 * r} ${y - 0.6 * r}h${2.8 * r}v${1.2 * r}h${-2.8 * r}z`,
    `M${x - 0.6 * r} ${y - 1.4 * r}h${1.2 * r}v${2.8 * r}h${-1.2 * r}z`,
  ];
  const path = paths[kind % COLOURS];
  return path ? shape("path", { d: path, class: css }) : shape("circle", { cx: x, cy: y, r, class: css });
}

export class Plot {
  constructor(figure, label) {
    this.figure = figure;
    this.label = label;
    this.choices = element("div", { class: "choices" });
    this.place = element("div");
    this.tip = element("div", { class: "tip", role: "status" });
    this.tip.hidden = true;
    figure.append(this.choices, this.place, this.tip);
    new ResizeObserver(() => {
      if (this.place.clientWidth !== this.drawn_width) this.draw();
    }).observe(this.place);
  }

  begin(height, margin) {
    const width = Math.max(260, this.place.clientWidth);
    this.drawn_width = this.place.clientWidth;
    this.tip.hidden = true;
    const svg = shape("svg", {
      viewBox: `0 0 ${width} ${height}`,
      role: "img",
      "aria-label": this.label,
      tabindex: "0",
    });
    this.place.replaceChildren(svg);
    this.box = {
      width,
      height,
      left: margin.left,
      right: width - margin.right,
      top: margin.top,
      bottom: height - margin.bottom,
    };
    return svg;
  }

  empty(text) {
    this.drawn_width = this.place.clientWidth;
    this.place.replaceChildren(element("p", { class: "empty" }, text));
  }

  x_axis(svg, scale, ticks, text, title) {
    const { left, right, top, bottom } = this.box;
    svg.append(shape("path", { class: "axis", d: `M${left} ${bottom}H${right}` }));
    for (const tick of ticks) {
      const x = scale(tick);
      svg.append(shape("path", { class: "grid", d: `M${x} ${top}V${bottom}` }));
      svg.append(shape("text", { x, y: bottom + 16, "text-anchor": "middle" }, text(tick)));
    }
    svg.append(
      shape(
        "text",
        { class: "title", x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" },
        title,
      ),
    );
  }

  y_axis(svg, scale, ticks, text, title) {
    const { left, right, top, bottom } = this.box;
    svg.append(shape("path", { class: "axis", d: `M${left} ${top}V${bottom}` }));
    for (const tick of ticks) {
      const y = scale(tick);
      svg.append(shape("path", { class: "grid", d: `M${left} ${y}H${right}` }));
      svg.append(shape("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, text(tick)));
    }
    svg.append(shape("text", { class: "title", x: 2, y: 12 }, title));
  }

  show_tip(x, y, title, lines) {
    this.tip.replaceChildren(element("b", {}, title), ...lines.map((line) => element("span", {}, line)));
    this.tip.hidden = false;
    const scale = this.place.clientWidth / this.box.width;
    const place = this.place.offsetTop;
    const most = this.figure.clientWidth - this.tip.offsetWidth;
    const beside = x * scale + 14 > most ? x * scale - this.tip.offsetWidth - 14 : x * scale + 14;
    this.tip.style.left = `${Math.max(0, Math.min(beside, most))}px`;
    this.tip.style.top = `${place + Math.max(0, y * scale - this.tip.offsetHeight - 10)}px`;
  }
}
