"""What a check is made of. Each expectation says in one or two sentences what was expected and what
came."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping

import numpy as np

from labkit.errors import CheckFailed, LabError, counted

NONE = " Does the function return its result?"  # follows where an answer is None
MOST_PERCENT = 10_000  # up to here a difference is told in percent too

_count = 0


def looked_at() -> int:
    """How many expectations this process has looked at so far; a check compares before and
    after."""
    return _count


def _looked() -> None:
    global _count
    _count += 1


def plain(value):
    """A torch or TensorFlow tensor, a Keras variable or a list of numbers as something numpy can
    compare."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return value.numpy()
    if hasattr(value, "numpy") and callable(value.numpy):
        return value.numpy()
    return value


def show(value, most: int = 80) -> str:
    """A value in few characters: numbers with six digits, arrays by shape and first values."""
    value = plain(value)
    if isinstance(value, (bool, np.bool_)) or value is None:
        return str(value)
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return f"{float(value):.6g}"
    if isinstance(value, np.ndarray) and value.ndim:
        first = ", ".join(show(item) for item in value.ravel()[:4])
        return f"an array of shape {value.shape} [{first}{', …' if value.size > 4 else ''}]"
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"


class Expect:
    """`expect(condition, sentence)` and `.equal`, `.close`, `.unchanged` and `.between`.

    slips, of `.equal` and `.close`: {sentence: the value that this mistake gives}. They are looked
    at only when the answer is wrong; the sentence of the first that the answer equals follows the
    numbers. A slip that equals what is wanted can never be named, so nothing is to be ruled out for
    one rank or one value. because: why it has to be so, in a sentence that follows when the answer
    is wrong.
    """

    def __call__(self, condition, sentence: str) -> None:
        """Fail with `sentence` unless `condition` is true."""
        _looked()
        condition = plain(condition)
        if isinstance(condition, np.ndarray) and condition.size != 1:
            raise LabError(
                "expect(condition, …) takes one truth value; use .all() or expect.close for arrays."
            )
        if not condition:
            raise CheckFailed(sentence)

    def equal(
        self, got, want, what: str, *, slips: Mapping[str, object] | None = None, because: str = ""
    ) -> None:
        """Fail unless got == want; arrays, lists and dicts are compared element by element."""
        _looked()
        _not_none(got, want, what)
        place = _first_difference(got, want)
        if place is not None:
            named = _slip(slips, lambda slip: _first_difference(got, slip) is None)
            raise CheckFailed(f"{what}: {_with_reason(place, named, because)}")

    def close(
        self,
        got,
        want,
        what: str,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        *,
        slips: Mapping[str, object] | None = None,
        because: str = "",
    ) -> None:
        """Fail unless |got - want| <= atol + rtol |want| everywhere; says where it is worst, and
        how much."""
        _looked()
        _not_none(got, want, what)
        off = _not_close(got, want, what, rtol, atol)
        if off:
            named = _slip(slips, lambda slip: not _not_close(got, slip, "", rtol, atol))
            raise CheckFailed(_with_reason(off, named, because))

    def unchanged(self, before, after, what: str, *, because: str = "") -> None:
        """Fail unless `after` is what `before` was: before, a copy made in time; after, what is
        there now."""
        _looked()
        if _first_difference(after, before) is not None:
            raise CheckFailed(
                _with_reason(f"{what} was changed; it belongs to the caller.", "", because)
            )

    def between(self, value, low, high, what: str) -> None:
        """Fail unless low <= value <= high (NaN fails)."""
        _looked()
        _not_none(value, low, what)
        value = plain(value)
        if not low <= value <= high:
            raise CheckFailed(
                f"{what}: expected between {show(low)} and {show(high)}, got {show(value)}."
            )


expect = Expect()


def _slip(slips: Mapping[str, object] | None, is_it: Callable[[object], bool]) -> str:
    """The sentence of the first slip that the answer equals; "" if there is none."""
    return next((sentence for sentence, wrong in (slips or {}).items() if is_it(wrong)), "")


def _with_reason(text: str, named: str, because: str) -> str:
    """The text, then the mistake that it was and the reason, each as a sentence."""
    for sentence in (named, because):
        if sentence:
            first = sentence.split()[0].strip(",;:.?!")
            is_word = first.isalpha() and (len(first) > 1 or first == "a")  # code keeps its letters
            begin = sentence[0].upper() if is_word else sentence[0]
            text += f" {begin}{sentence[1:]}" + ("" if sentence[-1] in ".!?" else ".")
    return text


def _not_none(got, want, what: str) -> None:
    if got is None and want is not None:
        raise CheckFailed(f"{what}: got None.{NONE}")


def _first_difference(got, want, where: str = "") -> str | None:
    got = plain(got)
    want = plain(want)
    at = f" at {where}" if where else ""
    if isinstance(want, dict) and isinstance(got, dict):
        if set(got) != set(want):
            return f"expected the keys {sorted(want, key=str)}{at}, got {sorted(got, key=str)}."
        pairs = [(f"[{key!r}]", got[key], want[key]) for key in want]
    elif isinstance(want, (list, tuple)) and isinstance(got, (list, tuple)):
        if len(got) != len(want):
            came = f"{len(got)}, {show(got)}" if got else "none"
            return f"expected {counted(len(want), 'value')}{at}, {show(want)}, got {came}."
        pairs = [(f"[{index}]", got[index], want[index]) for index in range(len(want))]
    elif isinstance(want, np.ndarray) or isinstance(got, np.ndarray):
        return _array_difference(np.asarray(got), np.asarray(want), at)
    else:
        more = NONE if got is None else ""
        return None if got == want else f"expected {show(want)}{at}, got {show(got)}.{more}"
    for step, its, wanted in pairs:
        difference = _first_difference(its, wanted, where + step)
        if difference:
            return difference
    return None


def _array_difference(got: np.ndarray, want: np.ndarray, at: str) -> str | None:
    if got.shape != want.shape:
        return f"expected shape {want.shape}{at}, got {got.shape}."
    different = np.argwhere(np.atleast_1d(got != want))
    if not len(different):
        return None
    place = tuple(different[0])
    values = f"expected {show(np.atleast_1d(want)[place])}, got {show(np.atleast_1d(got)[place])}"
    differ = "differs" if len(different) == 1 else "differ"
    return f"{len(different)} of {want.size} values {differ}{at}; at {_index(place)} {values}."


def _index(place: tuple[int, ...]) -> str:
    return f"[{', '.join(str(int(index)) for index in place)}]"


def _not_close(got, want, what: str, rtol: float, atol: float) -> str:
    """How far it is off, in a sentence that begins with `what`; "" where it is close."""
    got = plain(got)
    want = plain(want)
    if isinstance(want, dict) and isinstance(got, dict):
        if set(got) != set(want):
            return f"{what}: expected the keys {sorted(want, key=str)}, got {sorted(got, key=str)}."
        pairs = [(repr(key), got[key], want[key]) for key in want]
    elif isinstance(want, (list, tuple)) and any(np.ndim(plain(item)) for item in want):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            return f"{what}: expected {len(want)} arrays, got {show(got)}."
        pairs = [(str(index), *pair) for index, pair in enumerate(zip(got, want, strict=True))]
    else:
        return _numbers_not_close(got, want, what, rtol, atol)
    texts = (_not_close(its, wanted, f"{what} [{at}]", rtol, atol) for at, its, wanted in pairs)
    return next(filter(None, texts), "")


def _numbers_not_close(got, want, what: str, rtol: float, atol: float) -> str:
    # An answer may hold anything, memory that nobody wrote included: numpy would warn of its nan
    # and inf.
    with np.errstate(all="ignore"):
        try:
            if np.asarray(got).dtype.kind in "US":  # numpy would read numbers in strings
                raise TypeError
            got = np.asarray(got, dtype=float)
            want = np.asarray(want, dtype=float)
        except (TypeError, ValueError):
            empty = np.ndim(got) == 1 and any(item is None for item in got)
            return f"{what}: expected numbers, got {show(got)}.{NONE if empty else ''}"
        if got.shape != want.shape:
            return f"{what}: expected shape {want.shape}, got {got.shape}."
        off = ~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
        return f"{what}: {_by_how_much(got, want, off)}" if off.any() else ""


def _by_how_much(got: np.ndarray, want: np.ndarray, off: np.ndarray) -> str:
    distance = np.where(off, np.abs(got - want), 0)
    distance[np.isnan(distance)] = np.inf
    place = np.unravel_index(int(np.argmax(distance)), got.shape)
    here = got[place]
    there = want[place]
    share = abs(here - there) / abs(there) if there else np.inf
    # Beyond, percents say nothing.
    relative = f" ({share:.2%})" if share < MOST_PERCENT / 100 else ""
    off_by = show(float(abs(here - there)))
    values = f"expected {show(float(there))}, got {show(float(here))}, off by {off_by}{relative}"
    if not got.ndim:
        return f"{values}."
    are = "is" if off.sum() == 1 else "are"
    return f"{int(off.sum())} of {got.size} values {are} off; most at {_index(place)}: {values}."
