"use strict";
// A picture that follows the options of its part.
import { plots, send, showPlots } from "/static/live.js";

const form = document.getElementById("picture-form");
form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const said = document.getElementById("picture-said");
  try {
    const answer = await send("/api/picture", { table: form.dataset.table, choice: form.elements.choice.value });
    Object.assign(plots, answer.plots);
    const place = document.getElementById("picture");
    place.innerHTML = answer.html; // rendered by the server, where text of others is escaped
    showPlots(place);
    said.textContent = "";
  } catch (error) {
    said.textContent = error.message;
    said.className = "tone-wrong";
  }
});
