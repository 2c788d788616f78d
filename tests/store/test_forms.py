"""What a store gives back of traces that it keeps smaller, and what of those it keeps a part of."""

import pytest
import torch

from tests.store.conftest import Opener
from tests.store.making import made, same_bits, same_trace
from tests.store.numbers import SHAPE, event, told, trace
from tests.store.segment_files import flip_last
from v14.codecs.form import Form
from v14.codecs.layers import decode_layers, encode_layers
from v14.errors import TraceCorruptError, TraceNotKeptError
from v14.store.keeping import Keeping
from v14.store.layout import Layout

CODECS = ("int8", "int4")


def stored(opened: Opener, form: Form, *numbers: int):
    store = opened(keeping=Keeping(form=form))
    store.put(told(*numbers))
    assert store.flush(10)
    return store


@pytest.mark.parametrize("codec", CODECS)
def test_a_trace_comes_back_as_its_codec_leaves_it(opened: Opener, codec: str) -> None:
    store = stored(opened, Form(codec=codec, fine=(1,)), 0, 1)
    layers, heads, dim = SHAPE
    for number in (0, 1):
        was, now = trace(number), store.trace("home", event(number).id)
        key_codecs = ["int8" if slot == 1 else codec for slot in range(layers)]
        for half, codecs in (("keys", key_codecs), ("values", [codec] * layers)):
            x = getattr(was, half)
            rows = encode_layers(x, codecs, half)
            assert same_bits(getattr(now, half), decode_layers(rows, codecs, half, (24, heads, dim), x.dtype))
        keys = store.keys_of_layers("home", event(number).id, [1, 3])
        assert same_bits(keys, now.keys[[1, 3]])
        assert (now.keys - was.keys)[1].abs().max() < (now.keys - was.keys)[0].abs().max() or codec == "int8"
    again = opened_again(opened, store)
    assert same_trace(again.trace("home", event(0).id), now if number == 0 else again.trace("home", event(0).id))
    assert again.verify() == []


def test_finer_keys_of_what_is_kept_as_computed_change_nothing(opened: Opener) -> None:
    """As every server asks for that keeps traces as they are."""
    store = stored(opened, Form(fine=(1,)), 0)
    assert same_trace(store.trace("home", event(0).id), trace(0))
    assert Form(codec="int8", fine=(1,)) == Form.parse("int8")


def opened_again(opened: Opener, store):
    store.close()
    return opened()


def test_what_the_options_ask_for_is_what_is_read(opened: Opener) -> None:
    """The form that `v14.memory.keeping_of` makes of the default options names the voters' layers, too."""
    store = stored(opened, Form(codec="native", fine=(1, 3)), 0)
    assert same_trace(store.trace("home", event(0).id), trace(0))
    assert store._catalog.rows("home")[0].codec == ""
    assert store.stats().num_corrupt == 0


def test_smaller_is_smaller(opened: Opener, tmp_path) -> None:
    sizes = {}
    for codec in ("native", *CODECS):
        store = opened(keeping=Keeping(form=Form(codec=codec)))
        before = store.stats().num_bytes
        store.put([(event(number, codec), trace(number)) for number in range(20)])
        assert store.flush(10)
        sizes[codec] = store.stats().num_bytes - before
        store.close()
    assert sizes["int8"] < 0.7 * sizes["native"]
    assert sizes["int4"] < 0.5 * sizes["native"]


def test_what_cannot_be_quantised_is_exact(opened: Opener) -> None:
    """Any bits at all: most of these traces hold NaN or infinities, and short ones would not get smaller."""
    store = opened(keeping=Keeping(form=Form(codec="int4")))
    put = [made(number) for number in range(12)]
    store.put(put)
    assert store.flush(10)
    exact = [same_trace(store.trace("home", e.id), t) for e, t in put if not bool(t.keys.isfinite().all())]
    assert exact
    assert all(exact)


def test_voters_alone(opened: Opener) -> None:
    store = stored(opened, Form(codec="int8", only=(1, 3)), 0)
    (found,) = store.events("home")
    assert found == event(0)
    keys = store.keys_of_layers("home", found.id, [3])
    assert (keys[0].float() - trace(0).keys[3].float()).abs().max() < 0.5
    with pytest.raises(TraceNotKeptError, match="can be read again"):
        store.trace("home", found.id)
    with pytest.raises(TraceNotKeptError, match=r"layers \[1, 3\] were kept, not of \[0\]"):
        store.keys_of_layers("home", found.id, [1, 0])
    assert store.stats().num_corrupt == 0
    assert store.verify() == []


def test_one_store_holds_every_form(opened: Opener) -> None:
    forms = [Form(), Form(codec="int8"), Form(codec="int4", fine=(0,)), Form(only=(2,))]
    for number, form in enumerate(forms):
        stored(opened, form, number).close()
    store = opened()
    assert [e.id for e in store.events("home")] == [event(number).id for number in range(4)]
    assert same_trace(store.trace("home", event(0).id), trace(0))
    assert same_bits(store.keys_of_layers("home", event(3).id, [2]), trace(3).keys[[2]])
    assert store.verify() == []


@pytest.mark.parametrize("form", [Form(codec="int8"), Form(codec="int4"), Form(only=(0, 1, 2, 3))])
def test_damage_is_found(opened: Opener, form: Form) -> None:
    store = stored(opened, form, 0)
    (segment,) = Layout(root=store.path).segments.iterdir()
    flip_last(segment)
    with pytest.raises(TraceCorruptError, match="is not what was stored"):
        store.keys_of_layers("home", event(0).id, [3]) if form.only else store.trace("home", event(0).id)
    assert store.stats().num_corrupt == 1


def test_a_form_of_another_model_is_damage(opened: Opener) -> None:
    store = stored(opened, Form(codec="int8"), 0)
    store._catalog._writer.execute("UPDATE events SET codec = 'int8;only=17'")
    with pytest.raises(TraceCorruptError, match="does not fit a trace of 4 layers"):
        store.trace("home", event(0).id)
    assert store.stats().num_corrupt == 1


def test_pending_traces_are_as_computed(opened: Opener) -> None:
    store = opened(keeping=Keeping(form=Form(codec="int4")), batch_bytes=1)
    store.put(told(0))
    assert torch.isfinite(store.trace("home", event(0).id).keys).all()


@pytest.mark.parametrize("form", [Form(fine=(1, 2)), Form(codec="int8", fine=(1, 2)), Form(fine=(1,), only=(1,))])
def test_a_form_is_stored_as_its_text_says_it(opened: Opener, form: Form) -> None:
    """Profiles name the voters' layers whatever the codec is; where nothing is in 4 bits, that says nothing."""
    store = stored(opened, form, 0)
    keys = store.keys_of_layers("home", event(0).id, [1])
    assert same_bits(keys, trace(0).keys[[1]]) or form.codec == "int8"
    assert store.verify() == []
    if form.only is None:
        assert store.trace("home", event(0).id).num_tokens == 24
