"""Kinds of facts: how each is stated, asked directly, and asked in other words.

`{s}` is what a fact is about, `{v}` what is to be remembered. Names and places are invented on purpose: none of them
may occur in a check, which would otherwise measure what was chosen for it.
"""

from dataclasses import dataclass

GIVEN = ("Zelmira", "Torvald", "Ondrina", "Hesper", "Quillon", "Maristel", "Brannoc", "Ysolde", "Fenwick", "Calyra")
FAMILY = ("Vandermoor", "Okelbrook", "Strelitz", "Pomfrey", "Hallquist", "Drummelow", "Tarkinson", "Wexcombe")
TOWNS = ("Port Halvard", "Ellersby", "Monte Varno", "Dunkerley", "Sankt Orlo", "Brackwater", "Lindholme", "Vasterik")
CODES = ("58203", "91467", "30752", "76918", "24085", "67391")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of fact with its subjects and values; the i-th subject takes the i-th value of a shuffle."""

    name: str
    statements: tuple[str, ...]
    direct: str
    paraphrase: str
    subjects: tuple[str, ...]
    values: tuple[str, ...]

    def ask(self, subject: str, *, reworded: bool = False) -> str:
        """The question about a subject."""
        return (self.paraphrase if reworded else self.direct).format(s=subject)


KINDS = (
    Kind(
        name="door code",
        statements=("The door code of the {s} is {v}.", "To get into the {s} you have to type {v}."),
        direct="What is the door code of the {s}?",
        paraphrase="Which digits open the {s}?",
        subjects=("archive", "boiler room", "greenhouse", "rehearsal studio"),
        values=CODES,
    ),
    Kind(
        name="network password",
        statements=("The wifi password at the {s} is {v}.",),
        direct="What is the wifi password at the {s}?",
        paraphrase="How do I get my laptop online at the {s}?",
        subjects=("cabin", "workshop", "allotment"),
        values=("mossgate77", "tallowfern", "quartzheron", "ninebarrels"),
    ),
    Kind(
        name="animal",
        statements=("My {s} is called {v}.", "We named our {s} {v}."),
        direct="What is my {s} called?",
        paraphrase="Do you know the name of my {s}?",
        subjects=("parrot", "hedgehog", "tortoise", "goat"),
        values=("Bramblewick", "Tuppence", "Ozymar", "Pilkin", "Dandelo"),
    ),
    Kind(
        name="profession",
        statements=("My {s} works as a {v}.", "My {s} earns her living as a {v}."),
        direct="What does my {s} do for a living?",
        paraphrase="What is the profession of my {s}?",
        subjects=("niece", "aunt", "godmother"),
        values=("glassblower", "river pilot", "beekeeper", "piano tuner", "cartographer"),
    ),
    Kind(
        name="allergy",
        statements=("My {s} is allergic to {v}.", "{v} makes my {s} ill, because he is allergic."),
        direct="What is my {s} allergic to?",
        paraphrase="What should I never cook for my {s}?",
        subjects=("nephew", "flatmate", "stepfather"),
        values=("sesame", "celery", "mustard", "lupin"),
    ),
    Kind(
        name="appointment",
        statements=("My appointment with the {s} is on {v}.", "I have to see the {s} on {v}."),
        direct="When is my appointment with the {s}?",
        paraphrase="On which date does the {s} expect me?",
        subjects=("optician", "tax adviser", "physiotherapist"),
        values=("the 4th of February", "the 27th of August", "the 13th of June", "the 30th of October"),
    ),
    Kind(
        name="parking",
        statements=("I parked the {s} {v}.", "The {s} stands {v}."),
        direct="Where did I park the {s}?",
        paraphrase="How do I find the {s} again?",
        subjects=("camper van", "trailer", "moped"),
        values=("behind the sawmill", "on deck five, row K", "next to the water tower", "under the viaduct"),
    ),
    Kind(
        name="meeting",
        statements=("The {s} meeting is on {v}.", "We meet about the {s} on {v}."),
        direct="When is the {s} meeting?",
        paraphrase="When do I have to be ready to talk about the {s}?",
        subjects=("warehouse", "insurance", "recruiting", "packaging"),
        values=(
            "Tuesday at half past seven",
            "Thursday at ten past four",
            "Monday at a quarter to nine",
            "Friday at noon",
        ),
    ),
    Kind(
        name="favourite",
        statements=("My favourite {s} comes from {v}.", "I like the {s} from {v} best."),
        direct="Where does my favourite {s} come from?",
        paraphrase="Which {s} would make me happy as a present?",
        subjects=("cheese", "tea", "marmalade"),
        values=TOWNS,
    ),
    Kind(
        name="hotel",
        statements=("For the trip to {s} I booked the {v}.", "In {s} I have a room at the {v}."),
        direct="Which hotel did I book for the trip to {s}?",
        paraphrase="Where will I be sleeping in {s}?",
        subjects=TOWNS[:3],
        values=("Hotel Marchetta", "Gilded Otter Inn", "Pension Alwine", "Hotel Sternwarte"),
    ),
    Kind(
        name="platform",
        statements=("My train to {s} leaves from platform {v}.",),
        direct="From which platform does my train to {s} leave?",
        paraphrase="Where in the station do I board for {s}?",
        subjects=TOWNS[3:6],
        values=("11b", "9d", "6a", "14c"),
    ),
    Kind(
        name="key",
        statements=("The spare key of the {s} is {v}.", "I hid the second key of the {s} {v}."),
        direct="Where is the spare key of the {s}?",
        paraphrase="I locked myself out of the {s}, how do I get in?",
        subjects=("boathouse", "cellar", "summer house"),
        values=("under the blue watering can", "in the bird box", "behind the loose brick", "in the old teapot"),
    ),
    Kind(
        name="code name",
        statements=("Our {s} project runs under the code name {v}.", "We call the {s} project {v}."),
        direct="What is the code name of our {s} project?",
        paraphrase="Under which name do we speak of the {s} project?",
        subjects=("battery", "translation", "irrigation", "scheduling"),
        values=("Copperfinch", "Greylock", "Tamarack", "Nightjar", "Ambervale"),
    ),
    Kind(
        name="address of a machine",
        statements=("The {s} server has the address {v}.", "You reach the {s} server at {v}."),
        direct="What is the address of the {s} server?",
        paraphrase="Where do I connect to for the {s} server?",
        subjects=("staging", "billing", "telemetry"),
        values=("10.83.4.217", "10.26.91.38", "172.19.55.6", "10.148.7.92"),
    ),
    Kind(
        name="budget",
        statements=("The budget for the {s} is {v} euros.", "We may spend {v} euros on the {s}."),
        direct="What is the budget for the {s}?",
        paraphrase="How much money is there for the {s}?",
        subjects=("roof repair", "garden party", "trade fair", "new oven"),
        values=("13,750", "2,380", "46,900", "870", "5,640"),
    ),
    Kind(
        name="page",
        statements=("I stopped reading the {s} at page {v}.", "In the {s} I have got as far as page {v}."),
        direct="At which page did I stop reading the {s}?",
        paraphrase="Where do I continue in the {s}?",
        subjects=("sea novel", "biography", "history of salt"),
        values=("287", "163", "419", "338"),
    ),
    Kind(
        name="neighbour",
        statements=("The neighbour {s} is called {v}.", "{v} lives {s}."),
        direct="What is the name of the neighbour {s}?",
        paraphrase="Who lives {s}?",
        subjects=("on the third floor", "across the yard", "above the bakery"),
        values=FAMILY[:5],
    ),
    Kind(
        name="lent",
        statements=("I lent my {s} to {v}.", "{v} has borrowed my {s}."),
        direct="Whom did I lend my {s} to?",
        paraphrase="Who has my {s} now?",
        subjects=("sleeping bag", "chess set", "soldering iron", "tripod"),
        values=GIVEN[:5],
    ),
    Kind(
        name="size",
        statements=("My {s} size is {v}.", "I take {v} in {s}."),
        direct="What is my {s} size?",
        paraphrase="Which size should I order if I need {s}?",
        subjects=("ski boot", "glove", "hat"),
        values=("28.5", "nine and a half", "59 centimetres", "8.75"),
    ),
    Kind(
        name="home",
        statements=("My {s} moved to {v}.", "My {s} has a new flat in {v}."),
        direct="Where did my {s} move to?",
        paraphrase="In which town can I visit my {s}?",
        subjects=("cousin", "former boss", "grandson"),
        values=TOWNS,
    ),
    Kind(
        name="instrument",
        statements=("My {s} plays the {v}.", "My {s} is learning the {v}."),
        direct="Which instrument does my {s} play?",
        paraphrase="What should my {s} bring to the concert?",
        subjects=("landlady", "brother-in-law", "trainee"),
        values=("dulcimer", "bassoon", "hurdy-gurdy", "zither"),
    ),
    Kind(
        name="plate",
        statements=("The licence plate of the {s} is {v}.", "The {s} has the number plate {v}."),
        direct="What is the licence plate of the {s}?",
        paraphrase="What do I write down as the registration of the {s}?",
        subjects=("delivery van", "tractor", "hire car"),
        values=("HX 3907", "QV 618 T", "ZB 4426", "KR 751 W"),
    ),
    Kind(
        name="breakdown",
        statements=("The {s} broke down because {v}.", "The {s} stopped working when {v}."),
        direct="Why did the {s} break down?",
        paraphrase="What was wrong with the {s}?",
        subjects=("plotter", "dishwasher", "conveyor"),
        values=("a mouse ate the cable", "the filter was full of sand", "the belt had slipped", "lightning struck"),
    ),
    Kind(
        name="contract",
        statements=("Our contract with {s} ends in {v}.", "We are bound to {s} until {v}."),
        direct="When does our contract with {s} end?",
        paraphrase="How long do we still have to stay with {s}?",
        subjects=("Norvent Energy", "Blissard Logistics", "Kettleworth Cleaning"),
        values=("March 2031", "November 2029", "July 2033", "January 2032"),
    ),
    Kind(
        name="teacher",
        statements=("My {s} teacher is {v}.", "{v} gives me lessons in {s}."),
        direct="Who is my {s} teacher?",
        paraphrase="With whom am I learning {s}?",
        subjects=("fencing", "Finnish", "pottery"),
        values=("Mr Drummelow", "Ms Tarkinson", "Mr Wexcombe", "Ms Strelitz"),
    ),
    Kind(
        name="order",
        statements=("The order number of the {s} is {v}.", "I ordered the {s}, the number is {v}."),
        direct="What is the order number of the {s}?",
        paraphrase="The shop asks about the {s}, what do I quote?",
        subjects=("bookshelf", "wetsuit", "desk lamp", "sewing machine"),
        values=("LM-80264", "PT-15937", "GR-66028", "VN-39471", "DA-72810"),
    ),
    Kind(
        name="first meeting",
        statements=("I met {s} {v}.", "{s} and I first met {v}."),
        direct="Where did I meet {s}?",
        paraphrase="How do I know {s}?",
        subjects=GIVEN[5:9],
        values=("at a lighthouse tour", "in a choir", "on a ferry", "at a flea market", "in a hospital queue"),
    ),
    Kind(
        name="habit",
        statements=("Before work I always {v}.", "Every morning I {v}."),
        direct="What do I do every morning before work?",
        paraphrase="How does my working day begin?",
        subjects=("",),
        values=("swim in the canal", "bake flatbread", "water the tomatoes"),
    ),
    Kind(
        name="plan",
        statements=("In my holidays I want to {v}.", "I have decided to {v} in my holidays."),
        direct="What do I want to do in my holidays?",
        paraphrase="How am I going to spend my time off?",
        subjects=("",),
        values=("restore a windmill", "walk around a lake in the north", "learn to weave baskets"),
    ),
    Kind(
        name="gate",
        statements=("The {s} team sits in {v}.", "You find the {s} people in {v}."),
        direct="Where does the {s} team sit?",
        paraphrase="Which room do I go to for {s}?",
        subjects=("payroll", "legal", "design", "support"),
        values=("room C-417", "the annex, door 26", "the old chapel", "room F-208", "the glass pavilion"),
    ),
    Kind(
        name="desk",
        statements=("{s} sits at desk {v}.", "The desk of {s} is {v}."),
        direct="Which desk does {s} have?",
        paraphrase="Where do I bring the parcel for {s}?",
        subjects=("Zelmira Hallquist", "Torvald Pomfrey", "Ondrina Wexcombe"),
        values=("4-B-12", "2-F-07", "9-A-31", "6-C-25"),
    ),
    Kind(
        name="shift",
        statements=("{s} works on {v}.", "The shift of {s} is on {v}."),
        direct="When is the shift of {s}?",
        paraphrase="On which days can I meet {s} at work?",
        subjects=("Torvald Strelitz", "Calyra Hallquist", "Brannoc Vandermoor"),
        values=("Monday nights", "Sunday mornings", "Wednesday evenings", "Saturday afternoons"),
    ),
    Kind(
        name="bicycle",
        statements=("{s} rides a {v}.", "The bicycle of {s} is a {v}."),
        direct="Which bicycle does {s} ride?",
        paraphrase="What will {s} arrive on?",
        subjects=("Fenwick Okelbrook", "Zelmira Tarkinson", "Hesper Pomfrey"),
        values=("folding Marlinette", "yellow Dorvane", "racing Kestrano", "cargo Bulwark"),
    ),
    Kind(
        name="degree",
        statements=("{s} studied {v}.", "The degree of {s} is in {v}."),
        direct="What did {s} study?",
        paraphrase="Which subject does {s} know a lot about?",
        subjects=("Ysolde Drummelow", "Brannoc Okelbrook", "Quillon Wexcombe"),
        values=("volcanology", "canon law", "naval architecture", "Old Norse"),
    ),
)
