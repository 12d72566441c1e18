"use strict";
// When a study comes to its answer, the page shows it: read anew, with the focus on what has the same name, else the headline.
import { onRegions } from "/static/live.js";

const first = document.querySelector('[data-live="ended"]').textContent;
onRegions((changed) => {
  if (!("ended" in changed) || changed.ended === first) return;
  const focused = document.activeElement;
  if (focused !== document.body) history.replaceState({ focused: focused.id || "headline" }, "");
  location.reload();
});
if (history.state?.focused) {
  (document.getElementById(history.state.focused) ?? document.getElementById("headline")).focus({ preventScroll: true });
  history.replaceState(null, "");
}
