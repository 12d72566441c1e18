"use strict";
// A run that could not be read becomes its whole page as soon as it can.
import { onRegions } from "/static/live.js";

onRegions((changed) => changed.summary && location.reload());
