// What an operation is called in plots.

import { datatype, size } from "../spelling.js";
import { short_ids } from "./data.js";

export const name_of = (operation) => operation.function ?? "unnamed";
export const way_of = (operation) =>
  operation.algorithm || operation.protocol
    ? `${operation.algorithm ?? "-"}/${operation.protocol ?? "-"}`
    : "";

export const communicator_of = (operation) => short_ids[operation.communicator] ?? "";

export const label = (operation) =>
  [
    name_of(operation),
    operation.bytes === null ? "unknown size" : size(operation.bytes),
    operation.datatype && datatype(operation.datatype),
    communicator_of(operation),
    way_of(operation),
  ]
    .filter(Boolean)
    .join(" · ");
