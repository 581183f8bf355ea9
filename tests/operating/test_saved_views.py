"""`nodemend ui`: each link holds the query that it names."""

from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

from cli.ui import saved_views


def test_each_view_is_a_query_and_a_name_that_survive_the_link() -> None:
    now = datetime(2026, 12, 2, 3, 0, tzinfo=UTC)
    found = {
        name: parse_qs(urlsplit(link).query)
        for name, link in saved_views("http://ui/namespaces/x/workflows", "trn1", "hbm/3/A&B", now)
    }
    assert all(asked["savedQuery"] == [name] for name, asked in found.items())
    assert found["Fault hbm/3/A&B"]["query"][0].endswith('FaultSignature="hbm/3/A&B"')
    assert 'StartTime>"2026-12-01T03:00:00Z"' in found["Last 24 h"]["query"][0]
    assert "NeedsHuman=true" in found["Needs a human"]["query"][0]
    assert '"FleetBudget"' in found["Needs a human"]["query"][0], "a held fleet needs one too"
    assert 'NodeGroup="trn1"' in found["Group trn1"]["query"][0]
