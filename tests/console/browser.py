"""Chromium without a window, driven by WebDriver over plain HTTP: nothing but Debian's packages chromium and
chromium-driver."""

import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
         "--force-device-scale-factor=1", "--renderer-process-limit=1", "--disable-site-isolation-trials",
         "--disable-features=SpareRendererForSitePerProcess,BackForwardCache,Translate,OptimizationHints,MediaRouter"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "ArrowLeft": "\ue012", "Shift": "\ue008"}
PATIENCE_S = 60


def why_not():
    """Why there are no tests with a browser here; None: they run."""
    if CHROMIUM and DRIVER:
        return None
    return "no chromium here; install the packages chromium and chromium-driver; ./dev test does"


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="dovetail-browser-")
        self.log_path = pathlib.Path(self.folder) / "driver.log"
        with open(self.log_path, "wb") as log:
            self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=log, stderr=log,
                                           env=os.environ | {"HOME": self.folder, "XDG_CONFIG_HOME": self.folder})
        try:
            self.session = None
            self.line = http.client.HTTPConnection("127.0.0.1", self._port(), timeout=PATIENCE_S * 3)
            made = self._send("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:loggingPrefs": {"browser": "ALL"},
                "goog:chromeOptions": {"binary": CHROMIUM, "args": FLAGS + [f"--user-data-dir={self.folder}/profile"]}}}})
            self.session = made["sessionId"]
        except BaseException:
            self.close()
            raise

    def _port(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = re.search(r"successfully on port (\d+)", self.log_path.read_text(errors="replace"))
            if found:
                return int(found.group(1))
            time.sleep(0.05)
        raise RuntimeError(f"chromedriver does not start: {self.log_path.read_text(errors='replace')}")

    def _send(self, method, path, body=None):
        self.line.request(method, path, headers={"Content-Type": "application/json"},
                          body=None if body is None else json.dumps(body).encode())
        answer = self.line.getresponse()
        value = json.loads(answer.read())["value"]
        if answer.status != 200:
            raise RuntimeError(f"{method} {path}: {value['error']}: {value['message'][:500]}")
        return value

    def _ask(self, method, path, body=None):
        return self._send(method, f"/session/{self.session}{path}", body)

    def close(self):
        try:
            if self.session:
                self._ask("DELETE", "")
        except (OSError, RuntimeError, http.client.HTTPException):
            pass
        self.driver.terminate()
        self.driver.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def devtools(self, command, **parameters):
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def look(self, width, dark=False, height=900):
        """As a screen of this width, with this theme of the system."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])

    def go(self, url):
        self._ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, what, script, *arguments):
        """Until the script returns something true; returns it. What takes long is asked more seldom."""
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE_S:
            value = self.run(script, *arguments)
            if value:
                return value
            time.sleep(min(0.2, max(0.03, (time.monotonic() - began) / 5)))
        raise AssertionError(f"gave up waiting until {what}; the page says: {self.text()[:3000]}; console: {self.console()}")

    def settle(self):
        """Until what is drawn after a change of the width is drawn: one frame measures, one draws."""
        self.run("return new Promise(done => { let frames = 3; const next = () => frames-- ? requestAnimationFrame(next) : done(true); next(); })")

    def text(self):
        return self.run("return document.body.innerText")

    def shows(self, text):
        return self.wait(f"the page shows {text!r}", "return document.body.innerText.includes(arguments[0])", text)

    def click(self, css, text=None):
        """The first element that is shown and has this text; waits for it."""
        find = """return [...document.querySelectorAll(arguments[0])].find(
            e => e.checkVisibility() && !e.disabled && (arguments[1] === null || e.innerText.includes(arguments[1])))"""
        element = self.wait(f"there is {css} with {text!r}", find, css, text)
        self._ask("POST", f"/element/{element[ELEMENT]}/click", {})

    def type(self, css, text):
        element = self.wait(f"there is {css}", "return document.querySelector(arguments[0])", css)
        self._ask("POST", f"/element/{element[ELEMENT]}/clear", {})
        self._ask("POST", f"/element/{element[ELEMENT]}/value", {"text": text})

    def press(self, *keys):
        actions = []
        for key in keys:
            value = KEYS.get(key, key)
            actions += [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def console(self):
        """What was said since the last call."""
        return [f"{one['level']}: {one['message']}" for one in self._ask("POST", "/se/log", {"type": "browser"})]

    def picture(self, path, whole=False):
        height = self.run("return document.documentElement.scrollHeight") if whole else 0
        if height:
            width = self.run("return innerWidth")
            self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=min(height, 6000),
                          deviceScaleFactor=1, mobile=False)
            self.settle()
        pathlib.Path(path).write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))
