/*
 * Enables or disables a tool in the list at once, and selects tools to approve on their page.
 * Without it, the list is saved by its button, and the buttons that select load the page again.
 */
"use strict";
{
    const toast = document.createElement("div");
    toast.className = "mcp-toast";
    toast.setAttribute("role", "status");

    const say = (text, button) => {
        toast.classList.toggle("mcp-toast-error", !button);
        toast.replaceChildren(text, ...(button ? [button] : []));
    };

    const set = async (tick, token, failed) => {
        const on = tick.checked;
        const body = new URLSearchParams({ csrfmiddlewaretoken: token });
        if (on) {
            body.set("enabled", "on");
        }
        tick.disabled = true;
        try {
            const response = await fetch(tick.dataset.mcpSwitch, { method: "POST", body });
            if (!response.ok) {
                throw new Error(response.statusText);
            }
            // Also raises for a login page.
            const { message, undo, cells } = await response.json();
            for (const [name, html] of Object.entries(cells)) {
                const cell = tick.closest("tr").querySelector(`.field-${name}`);
                if (cell) {
                    cell.innerHTML = html;
                }
            }
            const button = document.createElement("button");
            button.type = "button";
            button.className = "button mcp-undo";
            button.textContent = undo;
            button.addEventListener("click", () => {
                tick.checked = !on;
                set(tick, token, failed);
            });
            say(message, button);
        } catch {
            tick.checked = !on;
            say(failed);
        } finally {
            tick.disabled = false;
            tick.focus();
        }
    };

    const prepareReview = () => {
        const ticks = [...document.querySelectorAll(".mcp-review > input")];
        const place = document.querySelector("[data-mcp-count]");
        if (!place) {
            return;
        }
        const count = () => {
            place.hidden = false;
            place.querySelector("output").textContent = ticks.filter((each) => each.checked).length;
        };
        for (const button of document.querySelectorAll("button[name=select]")) {
            button.addEventListener("click", (event) => {
                event.preventDefault();
                for (const tick of ticks) {
                    const wanted = { all: true, reads: "mcpReads" in tick.dataset };
                    tick.checked = wanted[button.value] ?? false;
                }
                count();
            });
        }
        ticks.forEach((tick) => tick.addEventListener("change", count));
        count();
    };

    addEventListener("DOMContentLoaded", () => {
        prepareReview();
        // After a search, Tab moves into the results.
        document.getElementById("changelist-search")?.setAttribute("action", "#mcp-found-tools");
        const results = document.querySelector("[data-mcp-failed]");
        const form = results?.closest("form");
        if (!form) {
            return;
        }
        document.body.append(toast);
        for (const tick of results.querySelectorAll("input[data-mcp-switch]")) {
            // A page restored by the browser may be out of date.
            tick.checked = tick.defaultChecked;
            tick.setAttribute("role", "switch");
            tick.classList.add("mcp-switch");
            tick.addEventListener("change", () => {
                set(tick, form.elements.csrfmiddlewaretoken.value, results.dataset.mcpFailed);
            });
        }
        if (results.querySelector("input[data-mcp-switch]")) {
            // Nothing is left to save.
            for (const each of form.querySelectorAll("[name=_save]")) {
                each.hidden = true;
            }
            document.querySelectorAll(".mcp-by-save").forEach((each) => { each.hidden = true; });
        }
    });
}
