"""Sentences with blanks: numbers, dates, times, prices, spelled letters, names and dialogue."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from num2words import num2words

WORDS = {
    "first": "Anna Ben Carla Dennis Eva Felix Greta Hugo Iris Jacob Karen Leo Mia Noah Otto Paula"
    " Quentin Rosa Simon Tina Ursula Vera Walter Yvonne Zoe Ahmed Priya Chen Omar Ingrid Diego",
    "last": "Adams Baker Clark Davies Evans Foster Graham Harris Ingram Jones Keller Lopez Miller"
    " Novak Owens Parker Quinn Roberts Schmidt Taylor Underwood Vogel Wilson Young Zimmerman",
    "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "month": "January February March April May June July August September October"
    " November December",
    "city": "Amsterdam Barcelona Calgary Dallas Edinburgh Florence Geneva Houston Istanbul Jakarta"
    " Kyoto Lima Melbourne Nairobi Osaka Prague Quebec Riga Stockholm Tunis Utrecht Venice"
    " Warsaw Zurich",
    "colour": "red green blue yellow orange purple brown grey black white pink silver",
    "quality": "tiny huge noisy silent ancient modern fragile solid cheerful gloomy smooth rough"
    " wooden empty crowded local foreign brilliant ordinary useful",
    "thing": "lantern suitcase violin ladder envelope compass kettle blanket hammer mirror bicycle"
    " painting telescope notebook umbrella carpet drawer whistle basket fountain tractor keyboard",
    "animal": "horse eagle rabbit dolphin spider camel turtle goose lizard beaver parrot donkey",
    "food": "bread soup rice cheese mushrooms salmon carrots honey yogurt noodles pancakes garlic"
    " spinach peaches walnuts ginger",
    "job": "plumber nurse pilot teacher lawyer farmer dentist painter soldier librarian"
    " reporter cook",
    "do": "repair borrow return examine deliver measure polish describe replace remember paint"
    " sell",
    "did": "repaired borrowed returned examined delivered measured polished described replaced"
    " remembered painted sold",
    "how": "slowly quickly carefully quietly suddenly rarely gladly clearly secretly together",
    "unit": "meters kilometers miles gallons pounds pages degrees hours minutes weeks",
}
PLACES = (
    "near the harbor", "behind the church", "in the attic", "at the museum", "on the balcony",
    "under the stairs", "across the border", "inside the tunnel", "by the river", "at the airport",
    "in the courtyard", "on the second floor", "outside the stadium", "along the coast",
)  # fmt: skip
TIMES = (
    "this morning", "last night", "two weeks ago", "after breakfast", "every evening",
    "at midnight", "next year",
    "before sunset", "in spring", "on the weekend", "right away", "a moment ago",
)  # fmt: skip
SENTENCES = """The {quality} {thing} is {place}.
{first} {did} the {colour} {thing} {time}.
{first} {last} works as a {job} in {city}.
Doctor {last} will {do} it {time}.
{name} and {name} were mentioned {time}.
Have you ever been to {name}?
My name is {first} {last}, and I was born in {city}.
I spell it {letter}, {letter}, {letter}, {letter}.
The code is {letter} {digit} {letter} {digit} {digit}.
Gate {letter} {tens} is closed.
Call {digit} {digit} {digit}, {digit} {digit} {digit} {digit}.
The number is {any}.
It costs {tens} dollars and {tens} cents.
They counted {hundreds} {animal}s {place}.
The year {year} was unusually {quality}.
On {month} {ordinal}, {year}, {first} moved to {city}.
It happened on the {ordinal} of {month}.
The bus leaves at {clock}, not at {clock}.
It is exactly {clock}.
{any} divided by {digit} is not {any}.
About {tens} percent of the {thing}s were {quality}.
The distance is {tens} point {digit} {unit}.
Minus {tens} {unit}!
We need {any} {unit} of {food}.
Room {hundreds} is on the {ordinal} floor.
Turn left after {hundreds} {unit}, then right {place}.
Where did {first} {do} the {thing}?
Who {did} my {quality} {thing} {time}?
Why is the {thing} so {quality}?
When will the {job} {do} the {thing}?
Could you {do} this {thing} for me, please?
Do you prefer {food} or {food}?
Is the {colour} {thing} yours, {first}?
How many {animal}s live {place}?
Isn't that {first}'s {thing}?
Would you like {food} with your {food}?
"{Greeting}," said {first}, "where is the {thing}?"
"I don't know," the {job} answered {how}.
"{Greeting}!" cried {first}. "The {animal} is {place}!"
{first} asked, "Did you {do} the {thing} {time}?"
{Greeting}, {first}!
{Greeting}.
Yes, I {did} it {time}.
No, we can't {do} that {time}.
I'm sure they'll {do} it {how}.
She doesn't want to {do} the {thing}, and I don't either.
We've never seen a {quality} {animal} {place} before.
The {animal} and the {animal} were both {quality}.
If the {thing} is {quality}, the {job} will {do} it {how}.
Although it was {quality}, {first} {did} the {thing} and {did} the {thing} {time}.
Because the {thing} was {place}, nobody could {do} it until {day}.
The {job} from {city} {did} {any} {thing}s, but only {digit} of them were {colour}.
First {do} the {thing}, then {do} the {thing}, and finally {do} the {thing} {place}.
Please bring {food}, {food}, {food} and some {food}.
Wait!
Stop here.
{digit}.
{any}.
{day}.
{letter}.
{first}.
{Thing}.
{quality} {thing}s.
{day}, {month} {ordinal}.
{letter}, {letter}, {letter}.
{digit}, {digit}, {digit}.
Once upon a time, a {quality} {animal} lived {place} with a {quality} {animal}.
The result was {digit} to {digit} for {city}.
Version {digit} point {digit} fixes the {thing}.
Your order of {tens} {colour} {thing}s has arrived {place}.""".splitlines()
GREETINGS = (
    "Good morning", "Hello", "Thanks a lot", "Excuse me", "Of course", "Never mind", "Well done",
    "Oh no", "Happy birthday", "See you soon", "Thank you", "Goodbye", "All right", "Not now",
    "Welcome", "Sorry", "Maybe", "Yes", "No", "Okay", "Of course not", "I think so", "Good night",
)  # fmt: skip


class Templates:
    """Fills the blanks; ``names`` are proper nouns that enrich the built-in ones."""

    def __init__(self, rng: random.Random, names: Sequence[str]) -> None:
        self._rng = rng
        words = {kind: line.split() for kind, line in WORDS.items()}
        self._fill: dict[str, Callable[[], str]] = {
            **{kind: _choice(rng, options) for kind, options in words.items()},
            "Thing": lambda: rng.choice(words["thing"]).capitalize(),
            "name": _choice(rng, [*words["first"], *names]),
            "place": _choice(rng, PLACES),
            "time": _choice(rng, TIMES),
            "Greeting": _choice(rng, GREETINGS),
            "letter": _choice(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
            "digit": lambda: spell(rng.randint(0, 9)),
            "tens": lambda: spell(rng.randint(10, 99)),
            "hundreds": lambda: spell(rng.randint(100, 999)),
            "any": lambda: spell(int(10 ** rng.uniform(0, 6))),
            "ordinal": lambda: spell(rng.randint(1, 31), "ordinal"),
            "year": lambda: spell(rng.randint(1700, 2040), "year"),
            "clock": self._clock,
        }

    def sentence(self) -> str:
        """One sentence without blanks."""
        text = re.sub(
            r"\{(\w+)\}", lambda blank: self._fill[blank[1]](), self._rng.choice(SENTENCES)
        )
        return text[0].upper() + text[1:] if text[0].isalpha() else text

    def _clock(self) -> str:
        hour, minute = (
            self._rng.randint(1, 12),
            self._rng.choice((0, 5, 10, 15, 20, 30, 40, 45, 50)),
        )
        if minute == 0:
            return spell(hour) + " o'clock"
        if minute == 30 and self._rng.random() < 0.5:
            return "half past " + spell(hour)
        return f"{spell(hour)} {'oh five' if minute == 5 else spell(minute)}"


def _choice(rng: random.Random, options: Sequence[str]) -> Callable[[], str]:
    return lambda: rng.choice(options)


def spell(number: int, form: str = "cardinal") -> str:
    """A number in words, without hyphens and commas, as the model's normaliser writes them."""
    words: str = num2words(number, to=form)
    return words.replace("-", " ").replace(",", "")
