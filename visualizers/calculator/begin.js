// @ts-check
// The calculator of a page, with the data that stand next to it.

import { find } from "../lessons/core.js";
import { beginCalculator } from "./calculator.js";

beginCalculator(find(document, "#calculator"), JSON.parse(find(document, "#calculator-data").textContent || "{}"));
