"""The catalogue's judgement: the labelled corpus and variations of its lines; test_kinds.py has what lies beyond."""

import json
from pathlib import Path

import pytest

from detector.catalogue import BUILT_IN, CatalogueError, catalogue, compile_catalogue, load_rules
from detector.rules import Catalogue

HERE = Path(__file__).parent
CORPUS = [json.loads(line) for line in (HERE / "kernel-lines.jsonl").read_text().splitlines()]
RULES = catalogue()


def verdict(text: str) -> str:
    match = RULES.match(text)
    return match.rule.verdict if match else "benign"


@pytest.mark.parametrize("line", CORPUS, ids=lambda line: line["id"])
def test_labelled_line_gets_its_verdict(line: dict[str, str]) -> None:
    assert verdict(line["text"]) == line["verdict"]


@pytest.mark.parametrize("line", CORPUS, ids=lambda line: line["id"])
@pytest.mark.parametrize(
    "vary",
    [
        lambda text: f"2026-12-01T12:00:00.123456Z {text}",
        lambda text: f"kernel: {text}",
        lambda text: f"{text} extra-key=1",
        lambda text: f"  {text}  ",
        lambda text: f"{text}\nDEVICE=+pci:0000:00:1f.0",
        lambda text: text + " " + "x" * 8000,
        lambda text: text.replace(" ", "  "),
        lambda text: text.replace(" ", "\t", 1),
        lambda text: f" pid:1 ERROR TDRV:exec  {text}\n\tmore of it",
        lambda text: text[:512],
    ],
    ids=[
        "timestamp",
        "prefix",
        "extra-key",
        "blanks",
        "second-line",
        "over-long",
        "doubled-blanks",
        "tab",
        "runtime-logger",
        "cut-at-512",
    ],
)
def test_variation_of_a_line_keeps_its_verdict(line: dict[str, str], vary: object) -> None:
    assert verdict(vary(line["text"])) == line["verdict"]  # type: ignore[operator]


@pytest.mark.parametrize(
    "line", [line for line in CORPUS if line["verdict"] != "hardware"], ids=lambda line: line["id"]
)
def test_line_that_was_cut_short_never_looks_like_broken_hardware(line: dict[str, str]) -> None:
    destructive = [cut for cut in range(len(line["text"])) if verdict(line["text"][:cut]) == "hardware"]
    assert destructive == []


@pytest.mark.parametrize(
    "line", [line for line in CORPUS if line["verdict"] == "hardware"], ids=lambda line: line["id"]
)
def test_hardware_line_that_was_cut_short_is_at_most_less_certain(line: dict[str, str]) -> None:
    found = {verdict(line["text"][:cut]) for cut in range(len(line["text"]) + 1)}
    assert "repairable" not in found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7194, Contained: SM (0x1). RST: No, D-RST: No", "application"),
        ("NVRM: Xid (0000:06:00): 79, GPU has fallen off the bus.", "hardware"),
        (
            "NVRM: Xid (PCI:0000:06:00): 154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)",
            "ambiguous",
        ),
        ("NVRM: Xid (PCI:0000:06:00): 119", "repairable"),
        ("NVRM: Xid (PCI:0000:06:00): 1199, something", "ambiguous"),
        ("nvidia-nvswitch0: SXid (PCI:0000:06:00.0): 31337, Odd, Link 1", "ambiguous"),
        ("Unable to handle kernel paging request at virtual address ffff80001234", "repairable"),
        ("Killed process 21843 (python3) total-vm:1kB", "benign"),
        ("EDAC MC: Ver: 3.0.0", "benign"),
        ("EDAC sbridge: Seeking for: PCI ID 8086:6fa0", "benign"),
        ("mce: CPU0: Thermal monitoring enabled (TM1)", "benign"),
        ("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010090", "notice"),
        ("mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: bd80000000100134", "hardware"),
        ("nvme nvme0: 32/0/0 default/read/poll queues", "benign"),
        ("EXT4-fs (nvme0n1p1): re-mounted 0c0b. Quota mode: none.", "benign"),
        ("XFS (nvme1n1): Ending clean mount", "benign"),
        ("pcieport 0000:00:1c.0: AER: enabled with IRQ 24", "benign"),
        ("amdgpu 0000:c3:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block", "benign"),
        ("amdgpu 0000:c3:00.0: amdgpu: GPU reset(2) succeeded!", "notice"),
        ("ena 0000:00:05.0: Elastic Network Adapter (ENA) v2.10", "benign"),
        ("ena 0000:00:05.0 eth0: Keep alive watchdog timeout.", "ambiguous"),
        ("critical target error, dev nvme0n1, sector 1 op 0x3:(DISCARD) flags 0x800", "ambiguous"),
        ("user said: please check Xid 79 in the docs", "benign"),
    ],
)
def test_kinds_beyond_the_corpus(text: str, wanted: str) -> None:
    assert verdict(text) == wanted


def test_neuron_line_carries_its_fields_and_todays_reason() -> None:
    match = RULES.match(
        "NEURON_HW_ERR=SRAM_UNCORRECTABLE_ERROR instance-id=i-0592464924bd45322 nd-id=7 serial-num=19fc action=X"
    )
    assert match
    assert match.reason == "NeuronHasError_SRAM_UNCORRECTABLE_ERROR"
    assert match.rule.condition_type == "NeuronHealth"
    assert (match.fields["nd-id"], match.fields["serial-num"]) == ("7", "19fc")


def test_two_devices_are_two_findings_and_one_device_is_one() -> None:
    first, again, other = (
        RULES.match(f"NEURON_HW_ERR=HBM_UNCORRECTABLE_ERROR nd-id={device} action={action}")
        for device, action in ((1, "A"), (1, "B"), (2, "A"))
    )
    assert first
    assert again
    assert other
    assert first.signature == again.signature != other.signature


def test_unknown_code_is_reported_and_goes_to_a_human() -> None:
    match = RULES.match("NEURON_HW_ERR=BRAND_NEW nd-id=1")
    assert match
    assert match.rule.verdict == "ambiguous"


def test_what_is_compiled_is_what_is_loaded(tmp_path: Path) -> None:
    target = tmp_path / "rules.json"
    assert compile_catalogue(target) == len(RULES.rules)
    assert [rule.id for rule in Catalogue.load(str(target)).rules] == [rule.id for rule in RULES.rules]


RULE = {
    "id": "my-rule",
    "pattern": "my fault",
    "component": "mine",
    "verdict": "hardware",
    "condition_type": "MyHealth",
    "reason": "MyFault",
    "provenance": "me",
    "matches": ["my fault"],
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pattern": "("}, "pattern"),
        ({"pattern": ".*"}, "pattern"),
        ({"verdict": "awful"}, "verdict"),
        ({"matches": ["something else"]}, "must match and does not"),
        ({"ignores": ["not my fault"]}, "must not match and does"),
        ({"colour": "red"}, "colour"),
        ({"threshold": {"count": 3, "window_s": 60}}, "only application and notice"),
    ],
)
def test_bad_rule_is_refused_by_file_rule_and_field(tmp_path: Path, change: dict[str, object], says: str) -> None:
    (tmp_path / "mine.yaml").write_text(json.dumps({"rules": [{**RULE, **change}]}))
    with pytest.raises(CatalogueError) as raised:
        load_rules([tmp_path])
    assert all(word in str(raised.value) for word in ("mine.yaml", "my-rule", says))


def test_users_rule_comes_before_ours(tmp_path: Path) -> None:
    mine = {**RULE, "pattern": "NEURON_HW_ERR=DMA_ERROR", "matches": ["NEURON_HW_ERR=DMA_ERROR"]}
    (tmp_path / "mine.yaml").write_text(json.dumps({"rules": [mine]}))
    match = catalogue([BUILT_IN, tmp_path]).match("test NEURON_HW_ERR=DMA_ERROR test")
    assert match
    assert match.rule.id == "my-rule"


def test_every_rule_that_leaves_doubt_says_what_ends_it() -> None:
    """Issue 9: corroboration before anything destructive where a rule asks."""
    silent = [rule.id for rule in load_rules([BUILT_IN]) if rule.verdict == "ambiguous" and rule.corroboration is None]
    assert silent == []


@pytest.mark.parametrize("line", ["NEURON_HW_ERR=BRAND_NEW nd-id=1", "NVRM: Xid (PCI:0000:06:00): 1199, something"])
def test_unknown_code_of_a_known_family_can_be_confirmed_by_a_human_alone(line: str) -> None:
    match = RULES.match(line)
    assert match is not None
    assert match.rule.corroboration == {"by": [], "needed": 1}
