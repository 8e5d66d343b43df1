// @ts-check
// The lessons of a page by the ids of their articles.

import { blocks } from "./blocks.js";
import { exact } from "./exact.js";
import { begin } from "./frame.js";
import { jacobi } from "./jacobi.js";
import { passes } from "./passes.js";
import { vectors } from "./vectors.js";

begin({ exact, passes, jacobi, blocks, vectors });
