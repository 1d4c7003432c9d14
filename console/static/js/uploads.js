// Sends the files one by one, each in its own request; the reply shows the progress.
import { showMessage } from "./trouble.js";

async function send(file, form) {
  const into = document.getElementById(form.dataset.into);
  const limit = Number(form.dataset.limit);
  if (file.size > limit) {
    showMessage(`${file.name} is larger than ${(limit / 1048576).toFixed(1)} MiB.`);
    return;
  }
  try {
    const reply = await fetch(`${form.dataset.upload}?name=${encodeURIComponent(file.name)}`, {
      method: "POST",
      body: file,
      headers: { "HX-Request": "true", "Content-Type": "application/octet-stream" },
    });
    window.htmx.swap(into, await reply.text(), { swapStyle: "afterbegin" });
  } catch {
    showMessage(`${file.name} could not be sent: the console does not answer.`);
  }
}

async function sendAll(files, form) {
  for (const file of files) await send(file, form);
}

export function uploads(page) {
  for (const form of page.querySelectorAll("[data-upload]")) {
    const field = form.querySelector("input[type=file]");
    const drop = form.querySelector(".drop");
    form.addEventListener("submit", (event) => event.preventDefault());
    field.addEventListener("change", async () => {
      const chosen = [...field.files];
      field.value = "";
      await sendAll(chosen, form);
    });
    for (const name of ["dragover", "dragleave", "drop"]) {
      drop.addEventListener(name, (event) => {
        event.preventDefault();
        drop.classList.toggle("over", name === "dragover");
        if (name === "drop") sendAll(event.dataTransfer.files, form);
      });
    }
  }
}
