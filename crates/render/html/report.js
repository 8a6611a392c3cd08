// The script of a report's page: folds, tables, plots of operations, and the run over time.
//
// It runs after the page has been read, in this order. The build puts it and what it imports into one script
// (`build/bundle.rs`).

import "./report/folds.js";
import "./report/tables.js";
import "./report/plots.js";
import "./report/over_time.js";
