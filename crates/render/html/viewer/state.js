// What is shown, and what follows from it.

import { whole } from "./sources.js";

// What the address holds.
export const state = {
  from: 0,
  to: whole,
  top: 0,
  // How many rows are seen; null is all.
  tall: null,
  sort: false,
  kernels: true,
  events: false,
  // Types of events that are not shown.
  hidden: new Set(),
  by: "communicator",
  group: "",
  words: "",
  call: null,
};

// What is on the screen.
export const now = {
  // Rows from top to bottom, and how often they were laid.
  rows: [],
  rows_number: 0,
  // What was loaded last, for which rows and span.
  loaded: null,
  // Where things are in the picture that was drawn last.
  layout: null,
  // The call that is marked, the place of the pointer, and the call about which more was asked for it.
  picked: null,
  pointed: null,
  asked_of: null,
};

export const shown_rows = () =>
  state.tall === null ? now.rows : now.rows.slice(state.top, state.top + state.tall);
