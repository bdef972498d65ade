"""`shuffledp serve --host ADDRESS --tls self`: other machines reach the pages, by TLS alone."""

import ssl
from urllib.parse import urlsplit

import httpx
import pytest

from live.pages.conftest import serve
from live.pages.test_pages import Visit, answer
from shuffledp.live import describe_trust
from shuffledp.live.serve.http import Certificate, trust
from shuffledp.live.wire import Collection

pytestmark = pytest.mark.xdist_group("browser")
HOST = "127.0.0.2"  # of this machine, and no address that a browser or we treat as such


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    data = tmp_path_factory.mktemp("network")
    with serve(data, "--host", HOST, "--tls", "self") as found:
        folder = data / "shuffledp" / "tls"
        kept = Certificate(chain=folder / f"{HOST}.pem", key=folder / f"{HOST}.key")
        yield {**found, "certificate": kept}


def test_everybody_is_spoken_to_by_tls_with_the_printed_certificate(network):
    certificate = network["certificate"]
    assert certificate.fingerprint in network["printed"]
    assert "shuffledp report" not in network["printed"]
    for address in (network["page"], network["results"]):
        place = urlsplit(address)
        assert (place.scheme, place.hostname) == ("https", HOST)
        seen = ssl.get_server_certificate((HOST, place.port))
        assert seen.split() == certificate.chain.read_text().split()
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{place.netloc}/healthz")
    page, _, identity = network["page"].partition("#")
    with httpx.Client(verify=trust(certificate)) as client:
        document = client.get(page.replace("/c/", "/collections/"))
        collection = Collection.read(document.content)
        assert client.get(f"{collection.url}/healthz").text == "ok\n"
    assert collection.id.hex() == identity
    assert describe_trust(collection)[0][0] == "one operator plays all roles here"
    assert urlsplit(network["desk"]).hostname == "127.0.0.1"


def test_a_person_answers_from_another_machine(browser, network):
    with Visit(browser, viewport={"width": 390, "height": 844}, ignore_https_errors=True) as visit:
        answer(visit, network["page"])
        visit.page.wait_for_selector("#state[data-state=acknowledged]")
        assert "One operator plays all roles here" in visit.page.inner_text("main")
        visit.page.goto(visit.page.get_attribute("a[href$=privacy]", "href"))
        assert visit.page.locator("h1").is_visible()
        assert "One operator runs both servers" in visit.page.inner_text("main")
        wide = [each.bounding_box()["width"] for each in visit.page.locator("th").all()]
        assert min(wide) > 300, "no word is torn apart"
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert visit.errors == []
        assert visit.hosts == {HOST}
    with Visit(browser) as visit:
        page = visit.page
        page.goto(network["desk"])
        page.click("text=Invite people")
        page.wait_for_selector(f"text={network['certificate'].fingerprint}")
        assert page.locator("text=You run both servers").is_visible()
        assert page.locator("text=on this machine only").count() == 0
        visit.check()
