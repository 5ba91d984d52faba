"""What the tests of the dashboard share: a signed-in browser, and what is wrong with the page that it shows."""

import atexit
import functools
import os
import pathlib
import socket

import browser
import scene

WIDTHS = (390, 1440)

# What is wrong with the page as it is, for everybody and for those who use a keyboard or a screen reader.
CHECK = r"""
const wrong = [], root = document.documentElement;
const seen = e => e.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
if (root.scrollWidth > innerWidth) wrong.push(`scrolls to the side: ${root.scrollWidth} > ${innerWidth}: ` +
  [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 150)).join(' | '));
for (const e of document.querySelectorAll('main *')) if (getComputedStyle(e).textOverflow === 'ellipsis' && e.scrollWidth > e.clientWidth + 1) wrong.push('cut off: ' + e.textContent);
for (const e of document.querySelectorAll('.pipeline .title')) if (e.textContent.includes('…')) wrong.push('cut off: ' + e.textContent);
for (const e of document.querySelectorAll('.table-wrap')) if (e.scrollWidth > e.clientWidth + 1) wrong.push('a table scrolls to the side: ' + e.innerText.slice(0, 60));
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
const colours = new Map();
const rgba = color => { if (!colours.has(color)) colours.set(color, painted(color)); return colours.get(color); };
const painted = color => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const ground = e => { const list = []; for (let at = e; at; at = at.parentElement) { const c = rgba(getComputedStyle(at).backgroundColor); list.push(c); if (c[3] === 1) break; } return list.reduceRight((below, c) => over(c, below), [255, 255, 255, 1]); };
const light = ([r, g, b]) => { const f = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }; return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
let texts = 0;
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !seen(e) || e.closest('svg, :disabled, .sr, .skip, noscript')) continue;
  const place = document.createRange();
  place.selectNodeContents(walker.currentNode);
  const { left, right } = place.getBoundingClientRect();
  let inside = e;
  while (inside && !/auto|scroll/.test(getComputedStyle(inside).overflowX)) inside = inside.parentElement;
  if (!inside && right > left && (right > innerWidth + 1 || left < -1)) wrong.push(`beyond the edge: ${JSON.stringify(walker.currentNode.data.slice(0, 40))}`);
  const style = getComputedStyle(e), below = ground(e), [a, b] = [light(over(rgba(style.color), below)), light(below)].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05), size = parseFloat(style.fontSize), needed = size >= 24 || (size >= 18.6 && style.fontWeight >= 700) ? 3 : 4.5;
  texts += 1;
  if (ratio < needed) wrong.push(`contrast ${ratio.toFixed(2)} of ${JSON.stringify(walker.currentNode.data.slice(0, 40))}`);
}
if ((light(ground(document.body)) < .2) !== arguments[0]) wrong.push('another theme than the one of the system');
if (texts < 3) wrong.push(`only ${texts} texts`);
return [...new Set(wrong)];
"""

# Notes each element that gets the focus: where it is, what it is, and whether the focus can be seen on it.
FOCUS = r"""
window.walk = [];
document.addEventListener('focusin', () => {
  const at = document.activeElement, style = getComputedStyle(at), body = at.querySelector('.body');
  walk.push([[...document.querySelectorAll('*')].indexOf(at), at.outerHTML.slice(0, 120), style.outlineStyle !== 'none' ||
    (body && getComputedStyle(body).strokeWidth === '2px') || at.closest('.find') !== null || at.id === 'main']);
});
"""
CAN_BE_USED = """return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')]
  .filter(e => e.checkVisibility({checkVisibilityCSS: true}) && !e.disabled).length"""


@functools.cache
def the_browser():
    """One for all tests of a file."""
    one = browser.Browser()
    atexit.register(one.close)
    return one


class DashboardCase(scene.SceneCase):
    def setUp(self):
        self.set_scene()
        self.page = the_browser()
        self.page.look(1440)

    def set_scene(self):
        super().setUp()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.config = self.config.replace("127.0.0.1:0", f"127.0.0.1:{free.getsockname()[1]}")
        self.write("dovetail.toml", self.config)
        self.begin()
        self.url = f"http://127.0.0.1:{self.port}"

    def tearDown(self):
        self.page.go("about:blank")
        self.page.devtools("Storage.clearDataForOrigin", origin=self.url, storageTypes="local_storage")  # the theme
        self.page.console()
        super().tearDown()

    def open(self, place="/", role="operator"):
        self.page.go("about:blank")  # or nothing is loaded where only the place changes
        self.page.devtools("Network.clearBrowserCookies")
        if role:
            signed_in = self.api("session", {"token": scene.TOKENS[role]}, role=None)
            self.assertEqual(signed_in.status, 200, signed_in)
            name, value = signed_in.headers["Set-Cookie"].split(";")[0].split("=", 1)
            self.page.devtools("Network.setCookie", url=self.url, name=name, value=value, httpOnly=True, sameSite="Strict")
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

    def draw_again(self):
        """The page is drawn again twice, with what the daemon says then."""
        self.page.run("""if (!window.drawn) { const show = D.show; window.drawn = 1; D.show = () => { show(); window.drawn += 1; }; }
            window.enough = window.drawn + 2""")
        self.page.wait("it is drawn again", "D.refresh(); return window.drawn >= window.enough")

    def check(self, name=None):
        """The page as it is, in both themes, narrow and wide. DOVETAIL_PICTURES=folder keeps a picture of each that has a name;
        with DOVETAIL_PICTURES_WHOLE=1 of the whole page and not of what fits the screen."""
        pictures, whole = os.environ.get("DOVETAIL_PICTURES"), bool(os.environ.get("DOVETAIL_PICTURES_WHOLE"))
        for dark in (False, True):
            for width in WIDTHS:
                with self.subTest(name, width=width, dark=dark):
                    self.page.look(width, dark)
                    self.page.settle()
                    self.assertEqual(self.page.run(CHECK, dark), [])
                    if pictures and name:
                        self.page.picture(pathlib.Path(pictures) / f"{name}-{width}-{'dark' if dark else 'light'}.png", whole)
        self.page.look(1440)

    def dialog_says(self, *texts):
        """What will happen, before it does."""
        self.page.wait("a dialog is open", "return document.querySelector('dialog[open]')")
        shown = " ".join(self.page.run("return document.querySelector('dialog[open]').innerText").split())
        for one in texts:
            self.assertIn(one, shown)

    def check_every_page(self, places):
        for name, place in places.items():
            self.show(place)
            if "stores" in name:
                self.page.wait("the doctor has looked", "return !document.body.innerText.includes('The doctor is looking')")
            self.check(name)
            # A page that says that something is missing has asked for it.
            said = [one for one in self.page.console() if "404 (Not Found)" not in one or "missing" not in name]
            self.assertEqual(said, [], name)

    def check_focus(self, places):
        """Tab goes through everything that can be used, in the order of the page, and one sees where it is: in each width and in each
        theme."""
        for width, dark in zip(WIDTHS, (True, False)):
            self.page.look(width, dark)
            for place in places:
                with self.subTest(place, width=width, dark=dark):
                    self.open(place)
                    self.page.run(FOCUS)
                    before = self.page.run(CAN_BE_USED)
                    self.page.press(*["Tab"] * (before + 3))
                    after = self.page.run(CAN_BE_USED)  # a chart may have appeared meanwhile
                    last, reached = -1, 0
                    for index, what, is_visible in self.page.run("return walk"):
                        if index <= last:
                            break  # it begins again
                        self.assertTrue(is_visible, f"the focus cannot be seen on {what}")
                        last, reached = index, reached + 1
                    self.assertIn(reached, (before, after))


class SharedScene(DashboardCase):
    """Its tests share one scene: none changes what another sees."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        stage = cls()
        cls.addClassCleanup(stage.doCleanups)
        DashboardCase.set_scene(stage)
        cls.stage = {name: value for name, value in vars(stage).items() if not name.startswith("_")}

    def set_scene(self):
        vars(self).update(self.stage)
