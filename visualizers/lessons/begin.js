// @ts-check
// The lessons of a page by the ids of their articles.

import { exact } from "./exact.js";
import { begin } from "./frame.js";
import { passes } from "./passes.js";

begin({ exact, passes });
