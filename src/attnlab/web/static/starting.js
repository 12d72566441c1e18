"use strict";
// As soon as what was started has a page of its own, that is shown.
import { onRegions } from "/static/live.js";

const go = (there) => there && location.replace(there);
onRegions((changed) => go(changed.there));
go(document.querySelector('[data-live="there"]').textContent.trim());
