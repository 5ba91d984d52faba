"""What the tests of the dashboard share: a signed-in browser, and what is wrong with the page that it shows."""

import os
import pathlib
import socket
import time

import browser
import scene

WIDTHS = (390, 1440)

# What is wrong with the page as it is, for everybody and for those who use a keyboard or a screen reader.
CHECK = r"""
const wrong = [], root = document.documentElement;
const seen = e => e.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
if (root.scrollWidth > innerWidth) wrong.push(`scrolls to the side: ${root.scrollWidth} > ${innerWidth}: ` +
  [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 150)).join(' | '));
if ([...document.querySelectorAll('h1')].filter(seen).length !== 1) wrong.push('there is not one h1');
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
ids.filter((id, i) => ids.indexOf(id) !== i).forEach(id => wrong.push('id twice: ' + id));
const nameOf = e => (e.getAttribute('aria-label') || e.getAttribute('title') || (e.labels && [...e.labels].map(l => l.textContent).join(' ')) ||
  (e.getAttribute('aria-labelledby') && document.getElementById(e.getAttribute('aria-labelledby')).textContent) ||
  (/^(INPUT|SELECT|TEXTAREA)$/.test(e.tagName) ? '' : e.textContent) || '').trim();
for (const e of document.querySelectorAll('a, button, input, select, textarea, summary, [role=img], [role=region], [role=meter], dialog, nav'))
  if (seen(e) && !nameOf(e)) wrong.push('without a name: ' + e.outerHTML.slice(0, 200));
for (const e of document.querySelectorAll('th')) if (!e.scope) wrong.push('a th without scope');
for (const e of document.querySelectorAll('[tabindex]')) if (e.tabIndex > 0) wrong.push('a tabindex above 0');
for (const e of document.querySelectorAll('svg')) if (seen(e) && !e.closest('[aria-hidden=true], [role=img], [role=group], [role=meter]') && !e.querySelector('title')) wrong.push('a picture without words: ' + e.outerHTML.slice(0, 100));

const pen = Object.assign(document.createElement('canvas'), { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
const rgba = color => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const ground = e => { const list = []; for (let at = e; at; at = at.parentElement) { const c = rgba(getComputedStyle(at).backgroundColor); list.push(c); if (c[3] === 1) break; } return list.reduceRight((below, c) => over(c, below), [255, 255, 255, 1]); };
const light = ([r, g, b]) => { const f = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let texts = 0;
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !seen(e) || e.closest('svg, :disabled, .sr, .skip, noscript')) continue;
  const style = getComputedStyle(e), below = ground(e), [a, b] = [light(over(rgba(style.color), below)), light(below)].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05), size = parseFloat(style.fontSize), needed = size >= 24 || (size >= 18.6 && style.fontWeight >= 700) ? 3 : 4.5;
  texts += 1;
  if (ratio < needed) wrong.push(`contrast ${ratio.toFixed(2)} of ${JSON.stringify(walker.currentNode.data.slice(0, 40))}`);
}
if (texts < 3) wrong.push(`only ${texts} texts`);
return [...new Set(wrong)];
"""

# The element with the focus: where it is, whether it can be seen, and what it is.
FOCUS = r"""
const at = document.activeElement, all = [...document.querySelectorAll('*')], style = getComputedStyle(at);
const body = at.querySelector && at.querySelector('.body');
return [all.indexOf(at), at === document.body ? 'body' : at.outerHTML.slice(0, 120),
  style.outlineStyle !== 'none' || (body && getComputedStyle(body).strokeWidth === '2px') || (at.closest('.find') !== null) || at.id === 'main'];
"""


class DashboardCase(scene.SceneCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        super().setUp()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.config = self.config.replace("127.0.0.1:0", f"127.0.0.1:{free.getsockname()[1]}")
        self.write("dovetail.toml", self.config)
        self.begin()
        self.url = f"http://127.0.0.1:{self.port}"
        self.page = self.browser
        self.page.look(1440)

    def tearDown(self):
        self.page.go("about:blank")
        self.page.devtools("Network.clearBrowserCookies")
        self.page.console()
        super().tearDown()

    def open(self, place="/", role="operator"):
        self.page.go("about:blank")
        if role:
            self.page.go(self.url + "/livez")
            self.page.devtools("Network.clearBrowserCookies")
            done = self.page.run("""return fetch('/api/v1/session', {method: 'POST', headers: {'Content-Type': 'application/json'},
                body: JSON.stringify({token: arguments[0]})}).then(answer => answer.status)""", scene.TOKENS[role])
            self.assertEqual(done, 200)
            self.page.console()
        self.page.go(f"{self.url}/#{place}")
        self.arrived()

    def arrived(self):
        self.page.wait("the page is there", "return document.querySelector('main h1, form.login-card') && "
                       "!document.querySelector('[aria-busy]')")

    def no_complaints(self):
        self.assertEqual(self.page.console(), [])

    def show(self, place):
        self.page.run("delete document.getElementById('main').dataset.shows; location.hash = '#/x'; location.hash = arguments[0]", "#" + place)
        self.page.wait("the place is there", "return document.getElementById('main').dataset.shows === arguments[0]", "#" + place)

    def check(self):
        self.assertEqual(self.page.run(CHECK), [])

    def check_every_page(self, places, whole=False):
        """In both themes, narrow and wide. DOVETAIL_PICTURES=folder keeps a picture of each."""
        pictures = os.environ.get("DOVETAIL_PICTURES")
        for dark in (False, True):
            for width in WIDTHS:
                self.page.look(width, dark)
                for name, place in places.items():
                    with self.subTest(name, width=width, dark=dark):
                        self.show(place)
                        if "stores" in name:
                            self.page.wait("the doctor has looked", "return !document.body.innerText.includes('The doctor is looking')")
                        time.sleep(0.3)
                        # A page that says that something is missing has asked for it.
                        said = [one for one in self.page.console() if "404 (Not Found)" not in one or "missing" not in name]
                        self.assertEqual([said, self.page.run(CHECK)], [[], []])
                        if pictures:
                            self.page.picture(pathlib.Path(pictures) / f"{name}-{width}-{'dark' if dark else 'light'}.png", whole)
                            self.page.look(width, dark)

    def check_focus(self, places):
        """Tab goes through everything that can be used, in the order of the page, and one sees where it is."""
        for dark in (False, True):
            for width in WIDTHS:
                self.page.look(width, dark)
                for place in places:
                    with self.subTest(place, width=width, dark=dark):
                        self.open(place)
                        wanted = self.page.run("""return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
                            .filter(e => e.checkVisibility({checkVisibilityCSS: true}) && !e.disabled).length""")
                        last, reached = -1, 0
                        for _ in range(wanted + 3):
                            self.page.press("Tab")
                            index, what, is_visible = self.page.run(FOCUS)
                            if what == "body" or index <= last:
                                break
                            self.assertTrue(is_visible, f"the focus cannot be seen on {what}")
                            last, reached = index, reached + 1
                        self.assertGreaterEqual(reached, wanted - 1)
        self.page.look(1440)
