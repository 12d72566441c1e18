"use strict";
// Differences paired by text: runs that did not keep the loss of each text are scored now, which takes a while.
import { send } from "/static/live.js";

const button = document.getElementById("paired");
const said = document.getElementById("paired-said");
button?.addEventListener("click", async () => {
  button.disabled = true;
  said.textContent = "Scoring every text of dev by each run …";
  said.className = "";
  try {
    const { html } = await send("/api/paired", { run: button.dataset.runs.split("\n") });
    const place = document.getElementById("paired-table");
    place.innerHTML = html; // rendered by the server, where text of others is escaped
    said.textContent = "";
    button.hidden = true;
  } catch (error) {
    said.textContent = error.message;
    said.className = "tone-wrong";
    button.disabled = false;
  }
});
