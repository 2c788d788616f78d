"""Invented names and the values that facts are filled with; none belongs to a calibration set or a check."""

import random
from collections.abc import Callable

_GIVEN = (
    "Bel Cor Dar El Fal Gar Hal Ild Jor Kel Lor Mer Nel Or Per Rav Sel Tam Ur Vel Wil Yar Zan Bri Dru Mae Tes Cas",
    "adan ava ebeth eda emar enka essa etta idon ika ilda imir inda ira iska olin omar orin ova una uva yra",
)
_FAMILY = (
    "Ard Bas Bex Cald Dorn Esk Farn Gres Hock Irv Jent Karl Lamb Mard Nord Ock Peld Rusk Sarn Tolb Ulv Varn Wend Yelk",
    "ahl anger berg eling enby ick ingham isk low mark mere olt orff over quist sley stad ten ters vik well yard",
)
_TOWN = (
    "Alder Birk Carn Dell Esh Firth Gorm Harn Ilk Jasp Kern Lud Marn Nith Olm Pell Rath Selk Tarn Ulm Wick Yarr",
    "beck bourne by cliffe combe dorp ford gate haven hithe holm mouth ness sund thorpe toft wold worth",
)
_COLOURS = ("bronze", "black", "copper", "cream", "crimson", "grey", "navy", "green", "sand", "silver", "teal", "white")
_MAKES = ("Kavaro", "Lindor", "Ostrey", "Pallas", "Rovena", "Sturmer", "Tiberon", "Velico", "Wendo", "Yuneki")
_STREETS = ("Alley", "Avenue", "Crescent", "Hill", "Lane", "Quay", "Row", "Square", "Terrace", "Yard")
_CLUBS = ("Athletic", "City", "Harriers", "Rangers", "Rovers", "Town", "United", "Wanderers")
_CHOIRS = ("Voices", "Singers", "Chorale", "Larks", "Quire", "Harmonists")
_FIRMS = ("Brothers", "& Daughters", "Freight", "Joinery", "Optics", "Paper", "Partners", "Seeds", "Supplies", "Tools")
_MONTHS = ("January", "March", "April", "May", "July", "September", "November", "December")
_FRUIT = [
    "apricot",
    "blackcurrant",
    "blueberry",
    "cherry",
    "coconut",
    "cranberry",
    "elderberry",
    "fig",
    "gooseberry",
    "grape",
    "greengage",
    "guava",
    "lime",
    "lychee",
    "mandarin",
    "mulberry",
    "papaya",
    "peach",
    "pear",
    "persimmon",
    "pineapple",
    "plum",
    "pomegranate",
    "quince",
    "raspberry",
    "rhubarb",
]
_DRINKS = ("cordial", "juice", "lemonade", "liqueur", "smoothie", "soda", "spritzer", "syrup", "tonic", "wine")
_BAKES = ("cake", "crumpet", "custard", "flan", "jelly", "muffins", "pie", "pudding", "slices", "tart", "turnovers")
_FLOWERS = [
    "anemones",
    "asters",
    "begonias",
    "bluebells",
    "buttercups",
    "camellias",
    "carnations",
    "cornflowers",
    "crocuses",
    "cyclamens",
    "daffodils",
    "dahlias",
    "daisies",
    "delphiniums",
    "foxgloves",
    "freesias",
    "fuchsias",
    "gardenias",
    "geraniums",
    "gladioli",
    "hollyhocks",
    "hyacinths",
    "irises",
    "jasmine",
    "larkspur",
    "lavender",
    "lilies",
    "lupins",
    "magnolias",
    "marigolds",
    "narcissi",
    "orchids",
    "pansies",
    "peonies",
    "petunias",
    "phlox",
    "poppies",
    "primroses",
    "ranunculi",
    "snapdragons",
    "snowdrops",
    "sunflowers",
    "tulips",
    "verbena",
    "wisteria",
    "zinnias",
]
_TOPICS = [
    "amber trade",
    "bell foundries",
    "border tolls",
    "bridge collapses",
    "bronze casting",
    "canal horses",
    "chalk mines",
    "coal barges",
    "comet hunters",
    "coral reefs",
    "deep-sea cables",
    "desert railways",
    "dye works",
    "early balloons",
    "eel migration",
    "fjord pilots",
    "forged stamps",
    "glacier lakes",
    "harbour cranes",
    "hop farming",
    "ice houses",
    "ink recipes",
    "lost alphabets",
    "marsh drainage",
    "mirror makers",
    "moss gardens",
    "night markets",
    "opal mining",
    "paper mills",
    "peat cutting",
    "pilgrim roads",
    "radio dramas",
    "reed boats",
    "rope walks",
    "salt taxes",
    "sea shanties",
    "silk moths",
    "snow crystals",
    "solar storms",
    "stage magic",
    "star charts",
    "stone circles",
    "sugar beets",
    "tidal power",
    "tin soldiers",
    "toll bridges",
    "tree rings",
    "whale songs",
]
_GIFTS = [
    "kite",
    "candle",
    "teapot",
    "puzzle",
    "scarf",
    "jug",
    "whistle",
    "mug",
    "fan",
    "stool",
    "tray",
    "basket",
    "cushion",
    "bowl",
    "corkscrew",
    "music box",
    "hourglass",
    "fountain pen",
]
_ROLES = [
    "cousin",
    "colleague",
    "neighbour",
    "plumber",
    "old friend",
    "sister-in-law",
    "rowing partner",
    "godson",
    "tailor",
    "bandmate",
    "upstairs neighbour",
    "choir friend",
    "classmate",
    "pen pal",
    "uncle",
    "aunt",
]

Draw = Callable[[random.Random], str]


def _joined(parts: tuple[str, str]) -> Draw:
    fronts, backs = (part.split() for part in parts)
    return lambda draw: draw.choice(fronts) + draw.choice(backs)


given, family, town = _joined(_GIVEN), _joined(_FAMILY), _joined(_TOWN)


def person(draw: random.Random) -> str:
    """A full name."""
    return f"{given(draw)} {family(draw)}"


def somebody(draw: random.Random) -> str:
    """A person as one speaks of them in a chat: by full name, or with what they are to the speaker."""
    return person(draw) if draw.random() < 0.4 else f"my {draw.choice(_ROLES)} {given(draw)}"


def firm(draw: random.Random) -> str:
    """A firm."""
    return f"{family(draw)} {draw.choice(_FIRMS)}"


VALUES: dict[str, Draw] = {
    "person": person,
    "town": town,
    "boat": lambda draw: f"{draw.choice(_COLOURS).capitalize()} {given(draw)}",
    "address": lambda draw: f"{draw.randint(2, 198)} {town(draw)} {draw.choice(_STREETS)}",
    "drink": lambda draw: f"{draw.choice(_FRUIT)} {draw.choice(_DRINKS)}",
    "bake": lambda draw: f"{draw.choice(_FRUIT)} {draw.choice(_BAKES)}",
    "day": lambda draw: f"{draw.choice(_MONTHS)} {draw.randint(1, 28)}",
    "car": lambda draw: f"{draw.choice(_COLOURS)} {draw.choice(_MAKES)}",
    "phone": lambda draw: f"0{draw.randint(20, 89)}-{draw.randint(100, 999)}-{draw.randint(10, 99)}",
    "club": lambda draw: f"{town(draw)} {draw.choice(_CLUBS)}",
    "choir": lambda draw: f"{town(draw)} {draw.choice(_CHOIRS)}",
    "seat": lambda draw: f"row {draw.randint(2, 29)} seat {draw.randint(2, 48)}",
    "amount": lambda draw: str(draw.randint(1001, 9899)),
    "flower": lambda draw: draw.choice(_FLOWERS),
    "topic": lambda draw: draw.choice(_TOPICS),
    "hour": lambda draw: f"{draw.randint(13, 23)}:{draw.choice(('07', '13', '19', '26', '34', '41', '48', '53'))}",
    "box": lambda draw: f"{draw.choice('ABDFGKMPRTX')}-{draw.randint(201, 989)}",
    "name": given,
    "gift": lambda draw: f"{draw.choice(_COLOURS)} {draw.choice(_GIFTS)}",
    "voucher": lambda draw: f"{family(draw).upper()}{draw.randint(12, 98)}",
}
"""How a value of each kind is drawn."""
