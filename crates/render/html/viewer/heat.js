// The heat map: shares of the time as colours.

import { layout, palette, rgb } from "./drawing.js";
import { mixed_rows } from "./mixing.js";
import { now } from "./state.js";

export function mix_rows() {
  const { heat, lanes, rows } = now.loaded;
  const tall = Math.max(1, Math.min(rows.length, Math.round(layout().area)));
  Object.assign(now.loaded, mixed_rows(heat, lanes, rows, tall), { tall_px: tall });
  paint_heat();
}

export function paint_heat() {
  const { mixed, tall_px, heat } = now.loaded;
  const colours = palette();
  const [card, ...inks] = ["card", "wait", "transfer", "other", "kernel"].map((name) => rgb(colours[name]));
  const image = document.createElement("canvas");
  image.width = Math.max(heat.bins, 1);
  image.height = tall_px;
  const on = image.getContext("2d");
  const pixels = on.createImageData(image.width, image.height);
  const into = new Uint32Array(pixels.data.buffer);
  const from = new Uint32Array(mixed.buffer);
  let [before, colour] = [-1, 0];
  for (let i = 0; i < from.length; i++) {
    if (from[i] !== before) {
      before = from[i];
      const shares = [0, 1, 2, 3].map((k) => mixed[4 * i + k] / 255);
      const sum = shares.reduce((a, b) => a + b, 0);
      const by = sum > 1 ? 1 / sum : 1;
      const [r, g, b] = [0, 1, 2].map((c) =>
        Math.round(
          inks.reduce((all, ink, k) => all + ink[c] * shares[k] * by, card[c] * Math.max(1 - sum, 0)),
        ),
      );
      colour = (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
    }
    into[i] = colour;
  }
  on.putImageData(pixels, 0, 0);
  now.loaded.image = image;
}
