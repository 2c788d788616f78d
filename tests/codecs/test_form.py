"""The catalog's word for how a trace lies on disk."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from v14.codecs.form import Form
from v14.errors import TraceCorruptError

SLOTS = st.sets(st.integers(0, 99), min_size=1).map(sorted).map(tuple)
FORMS = st.builds(
    Form,
    codec=st.sampled_from(("native", "int8", "int4")),
    fine=st.just(()) | SLOTS,
    only=st.none() | SLOTS,
    sealed=st.booleans(),
)


@given(FORMS)
def test_text_says_everything_that_matters(form):
    again = Form.parse(form.text)
    assert again.text == form.text
    assert (again.codec, again.only, again.sealed) == (form.codec, form.only, form.sealed)
    assert [again.key_codec(slot) for slot in range(100)] == [form.key_codec(slot) for slot in range(100)]


def test_a_native_trace_has_no_text():
    assert Form().text == ""
    assert Form.parse("") == Form()


@pytest.mark.parametrize(
    "text", ["int2", "int4;", "int4;fine=", "int4;fine=2,1", "int4;fine=1,1", "int4;only=10000", "+aes", "int8;fine=a"]
)
def test_what_nobody_writes_is_refused(text):
    with pytest.raises(TraceCorruptError, match="form"):
        Form.parse(text)


@given(st.text(alphabet="int48;fineoly=,+aesgcm019", max_size=40))
def test_any_text_is_a_form_or_refused(text):
    with suppress(TraceCorruptError):
        again = Form.parse(text)
        assert Form.parse(again.text).text == again.text


def test_slots_of_another_model_are_refused():
    assert Form(only=(1, 3)).key_slots(4) == (1, 3)
    assert Form().key_slots(3) == (0, 1, 2)
    for form in (Form(only=(4,)), Form(codec="int4", fine=(4,))):
        with pytest.raises(TraceCorruptError, match="4 layers"):
            form.key_slots(4)
