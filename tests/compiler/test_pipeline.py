"""A pipeline is text that survives parsing; what is wrong with one is said with its place."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorfarm.compiler.passes.fold_constants import FoldConstants
from tensorfarm.compiler.pipeline import BUILT_IN, Call, Pipeline, parse, pass_digests, resolved
from tensorfarm.contract.refusal import Refusal

EXAMPLES = Path(__file__).parents[2] / "examples"
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
options = st.lists(
    st.tuples(names, st.from_regex(r"[A-Za-z0-9_.+-]{1,6}", fullmatch=True)), max_size=3, unique_by=lambda pair: pair[0]
).map(tuple)
pass_names = st.one_of(
    st.sampled_from(sorted(BUILT_IN)), st.tuples(names, names, names).map(lambda parts: "{}.{}:{}".format(*parts))
)
pipelines = st.builds(
    Pipeline,
    st.builds(Call, names, options),
    st.lists(st.builds(Call, pass_names, options), max_size=4).map(tuple),
)


@given(pipelines)
def test_any_pipeline_survives_printing_and_parsing(pipeline: Pipeline) -> None:
    assert parse(str(pipeline)) == pipeline


@pytest.mark.parametrize(
    "text",
    [
        "fx",
        "fx:dce,cse,fold-constants{limit=64},planted:WrongScale",
        "fx:dce,my.deep.module:Pass{a=1,b=x-y},dce",
        "inductor{mode=default}",
    ],
)
def test_a_pipeline_prints_as_it_was_written(text: str) -> None:
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", "position 0", "a backend's name"),
        ("fx:", "position 3", "cse, dce, drop-noop-casts, fold-constants or module:Class"),
        ("fx:dce,", "position 7", "a pass"),
        ("fx:dce cse", "position 6", '"," and another pass, or the end'),
        ("fx dce", "position 2", '":" and passes'),
        ("fx:fold-constants{limit}", "position 18", "key=value"),
        ("fx:fold-constants{limit=1,limit=2}", "position 26", "another option than limit"),
        ("fx:fold-constants{limit=64", "position 17", '"," and another pass'),
    ],
)
def test_a_misspelt_pipeline_is_refused_with_its_position(text: str, position: str, expected: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse(text)
    assert position in refused.value.fact
    assert expected in refused.value.limit


def test_options_reach_the_pass_with_their_types() -> None:
    assert resolved(parse("fx:fold-constants{limit=64}")) == [FoldConstants(limit=64)]


@pytest.mark.parametrize(
    ("text", "fact", "limit"),
    [
        ("fx:dce,dec", "pass 1 of the pipeline is 'dec'", "known: cse, dce, drop-noop-casts, fold-constants"),
        ("fx:fold-constants{limits=6}", "no option 'limits'", "known: limit"),
        ("fx:fold-constants{limit=many}", "is no int", ""),
        ("fx:no_such_module:Pass", "cannot be imported: No module named 'no_such_module'", ""),
        ("fx:json:Pass", "cannot be imported", ""),
        ("fx:json:JSONDecoder", "has no name, numerics, sites, rewrite", "a frozen dataclass"),
    ],
)
def test_what_a_pipeline_names_must_exist(text: str, fact: str, limit: str) -> None:
    with pytest.raises(Refusal) as refused:
        resolved(parse(text))
    assert fact in refused.value.fact
    assert limit in refused.value.limit


def test_a_users_pass_is_part_of_the_identity_by_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    pipeline = parse("fx:dce,my_passes:DropDoubleNegation,planted:WrongScale")
    assert pass_digests(pipeline) == {
        "my_passes:DropDoubleNegation": sha256((EXAMPLES / "my_passes.py").read_bytes()).hexdigest(),
        "planted:WrongScale": sha256((EXAMPLES / "planted.py").read_bytes()).hexdigest(),
    }
    assert [item.name for item in resolved(pipeline)] == ["dce", "drop-double-negation", "wrong-scale"]


def test_a_users_pass_without_a_source_file_is_refused() -> None:
    with pytest.raises(Refusal, match="module 'nowhere_at_all' of a pass has no source file"):
        pass_digests(parse("fx:nowhere_at_all:Pass"))


def test_an_unreadable_kind_of_option_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class WithList:
        sizes: list[int]

    monkeypatch.setitem(BUILT_IN, "with-list", WithList)
    with pytest.raises(Refusal, match="option sizes=3 of pass 'with-list'"):
        resolved(parse("fx:with-list{sizes=3}"))


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ("post_grad=nowhere_at_all.MyPass", "'nowhere_at_all.MyPass' cannot be imported: No module named"),
        ("post_grad=math.MyPass", "'math.MyPass' cannot be imported: module 'math' has no attribute"),
        ("post_grad=math.pi", "'math.pi' cannot be called with a graph"),
        ("post_grad=fractions.Fraction", "'fractions.Fraction' cannot be called with a graph"),
        ("post_grad=MyPass", "backend inductor has no option post_grad=MyPass"),
        ("pre_grad=mine.MyPass", "known: mode=default, post_grad=module.Name"),
    ],
)
def test_a_post_grad_pass_that_is_not_there_is_refused_in_one_line(option: str, told: str) -> None:
    pipeline = parse(f"inductor{{{option}}}")
    with pytest.raises(Refusal) as refused:
        resolved(pipeline)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_source_of_a_post_grad_pass_is_part_of_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "my_post_grad.py"
    source.write_text("def rewrite(graph): pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    pipeline = parse("inductor{post_grad=my_post_grad.rewrite}")
    assert pass_digests(pipeline) == {"my_post_grad.rewrite": sha256(source.read_bytes()).hexdigest()}
