"use strict";
// When a study comes to its answer, the page shows it.
import { onRegions } from "/static/live.js";

const first = document.querySelector('[data-live="ended"]').textContent;
onRegions((changed) => { if ("ended" in changed && changed.ended !== first) location.reload(); });
