/*
 * Draws the pictures of a result and plays its sounds without URLs: a Content-Security-Policy of
 * "default-src 'self'" blocks data: and blob: URLs. If scripts are disabled, browsers load the
 * content of the noscript elements, if the site's policy allows it.
 */
"use strict";
{
    const SOURCE = /src="data:([^;"]+);base64,([^"]+)"/;

    const drawn = async (bytes, type, label) => {
        // Never a document: browsers create bitmaps only from raster images.
        const bitmap = await createImageBitmap(new Blob([bytes], { type }));
        const canvas = document.createElement("canvas");
        canvas.width = bitmap.width;
        canvas.height = bitmap.height;
        canvas.getContext("2d").drawImage(bitmap, 0, 0);
        canvas.setAttribute("role", "img");
        canvas.setAttribute("aria-label", label);
        return canvas;
    };

    const played = async (bytes, label) => {
        const context = new AudioContext();
        const buffer = await context.decodeAudioData(bytes.buffer);
        const button = document.createElement("button");
        let playing = null;
        const mark = () => button.setAttribute("aria-pressed", playing !== null);
        button.type = "button";
        button.className = "button";
        button.textContent = `▶ ${label}`;
        button.addEventListener("click", async () => {
            if (playing) {
                playing.stop();
                return;
            }
            await context.resume();
            playing = context.createBufferSource();
            playing.buffer = buffer;
            playing.connect(context.destination);
            playing.addEventListener("ended", () => { playing = null; mark(); });
            playing.start();
            mark();
        });
        mark();
        return button;
    };

    const show = async (place) => {
        const { mcpLabel: label, mcpFailed: failed } = place.dataset;
        const [, type, data] = place.textContent.match(SOURCE);
        const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
        try {
            place.replaceWith(await (
                type.startsWith("image/") ? drawn(bytes, type, label) : played(bytes, label)
            ));
        } catch {
            const text = document.createElement("p");
            text.textContent = failed;
            place.replaceWith(text);
        }
    };

    addEventListener("DOMContentLoaded", () => {
        document.querySelectorAll("noscript[data-mcp-label]").forEach(show);
    });
}
