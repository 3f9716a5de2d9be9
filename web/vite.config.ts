import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

const api = process.env["GRADMILL_URL"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  plugins: [svelte()],
  build: { outDir: "../service/static", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, license: { fileName: "licenses.md" } },
  server: { proxy: { "/v1": api } },
});
