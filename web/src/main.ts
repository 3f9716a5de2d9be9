import { mount } from "svelte";
import App from "./App.svelte";
import "./styles/base.css";
import "./styles/form.css";

const target = document.getElementById("app");
if (!target) throw new Error("index.html must hold an element with id app");
mount(App, { target });
