"""Words that the generated chats are made of: nouns by type, adjectives, replies, sentences about nothing."""


def listed(text: str) -> tuple[str, ...]:
    """The words of a text; `-` stands for the empty one."""
    return tuple("" if word == "-" else word for word in text.split())


PEOPLE = listed(
    """sister brother aunt uncle niece nephew cousin mother father grandfather stepmother boss neighbour landlady
    teacher dentist lawyer plumber baker barber trainer flatmate roommate colleague assistant intern secretary tutor
    mechanic gardener painter tailor florist librarian pharmacist carpenter electrician nurse hairdresser translator
    programmer architect drummer violinist goalkeeper referee chess-partner babysitter godfather classmate professor
    supervisor tenant customer supplier interpreter cleaner driver guide butcher fishmonger optometrist choirmaster
    son-in-law twin pen-friend room-mate bookkeeper caretaker midwife vet instructor rower"""
)
ANIMALS = listed(
    """cat dog horse rabbit canary donkey goose sheep pig cow hen duck hamster lizard snake turtle mule
    llama ferret owl falcon raven swan crab trout newt frog toad bee-colony camel otter badger fox lynx"""
)
THINGS = listed(
    """boat printer scanner server database laptop tablet camera telescope microscope drone tractor lorry bus tram
    bicycle scooter sledge kayak canoe ferry yacht caravan tent oven fridge freezer toaster kettle mixer blender
    dishwasher radiator boiler pump generator turbine compressor drill saw lathe anvil ladder crane forklift trolley
    piano organ guitar violin cello flute trumpet drum harp accordion clock watch compass lantern lamp chandelier
    mirror wardrobe bookcase sofa armchair bench table desk cupboard chest safe vault locker suitcase backpack
    umbrella raincoat helmet saddle carpet curtain blanket vase statue portrait sculpture fountain well windmill
    greenhouse shed barn garage workshop cellar attic pavilion tower lighthouse bridge pier tunnel chapel mill
    library museum theatre cinema bakery pharmacy hospital school gym studio office archive warehouse laboratory
    robot satellite antenna router switchboard modem projector loudspeaker microphone typewriter globe map diary
    notebook cookbook dictionary atlas novel manuscript"""
)
EVENTS = listed(
    """concert lecture meeting workshop seminar exam interview rehearsal auction wedding funeral picnic parade race
    tournament regatta exhibition premiere festival fair conference inspection inventory delivery training excursion
    reunion banquet ceremony match hearing election performance tasting market sale course party hike cruise"""
)
ADJECTIVES = listed(
    """red blue green yellow white black grey brown silver golden old new small large tall short heavy light wooden
    iron copper glass plastic broken round square narrow wide deep shallow quiet loud clean dusty warm cold wet dry
    bright dark cheap expensive simple strange famous local northern southern eastern western second third spare
    foreign royal modern ancient rusty striped"""
)
NUMBER_TRAITS = (
    "serial number",
    "account number",
    "ticket number",
    "inventory number",
    "extension",
    "access code",
    "unlock code",
    "membership number",
    "customer number",
    "insurance number",
    "version number",
    "catalogue number",
    "invoice number",
    "row number",
    "height",
    "length",
    "weight",
    "speed",
    "capacity",
    "temperature",
    "voltage",
    "radio channel",
    "batch number",
    "mileage",
    "score",
    "article number",
)
NAME_TRAITS = (
    "nickname",
    "successor",
    "inventor",
    "patron",
    "sponsor",
    "manager",
    "founder",
    "guardian",
    "rival",
    "best friend",
    "favourite song",
    "favourite dish",
    "favourite painter",
    "favourite game",
    "favourite tea",
    "favourite singer",
    "favourite drink",
    "favourite shop",
    "brand",
    "model",
    "label",
    "maiden name",
    "stage name",
    "pen name",
    "motto",
    "keyword",
    "secret word",
    "dialect",
    "mother tongue",
    "hobby",
    "profession",
    "team",
    "university",
    "street",
    "home port",
    "main sponsor",
    "deputy",
    "instructor",
    "publisher",
    "variety",
)
DISHES = listed(
    """soup rice bread cheese plums apples pears walnuts beans lentils carrots onions mushrooms noodles pancakes
    honey yoghurt pumpkin spinach salmon herring chestnuts cherries grapes olives almonds porridge"""
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = listed("January February March April May June July August September October November December")
PREPOSITIONS = ("under", "behind", "beside", "above", "inside", "in front of", "next to", "on top of", "near", "below")
DEEDS = listed("paint clean repair sell move visit measure photograph empty lock polish inspect rent decorate draw")
STATE_PHRASES = ("too hot", "too cold", "too heavy", "full", "empty", "dirty", "loose", "frozen", "blocked", "lost")

ACKNOWLEDGEMENTS = (
    "Okay.",
    "Noted.",
    "Okay, noted.",
    "I will remember that.",
    "Thank you, I will keep that in mind.",
    "Understood.",
    "All right.",
    "Good to know.",
    "Thanks for telling me.",
    "I have made a note of it.",
    "Okay, I will remember that.",
    "Got it.",
)
LEAD_INS = (
    "By the way, ",
    "Please remember: ",
    "For your notes: ",
    "Just so you know: ",
    "Note that ",
    "One more thing: ",
    "Also, ",
    "I wanted to tell you that ",
    "Remember that ",
)
CORRECTIONS = (
    "Correction: ",
    "I was wrong. ",
    "That has changed: ",
    "Sorry, a mistake: ",
    "Update: ",
    "No longer. Now ",
    "It is different now: ",
    "Actually, ",
)
ASK_LEADS = ("Tell me: ", "Do you remember? ", "One question: ", "Please tell me: ", "And now: ", "I forgot: ")
UNKNOWN = "I do not know."
SYSTEM_PROMPTS = (
    "You are a helpful assistant.",
    "Answer briefly.",
    "You are a friendly assistant with a good memory.",
    "Answer from what was said in this chat.",
    "You help with notes and questions.",
    "Be short and exact.",
)
SMALL_TALK = (
    ("Hello!", "Hello! How can I help you?"),
    ("Good evening.", "Good evening. What can I do for you?"),
    ("Hi, are you there?", "Yes, I am here."),
    ("Thank you very much.", "You are welcome."),
    ("Thanks, that helps.", "I am glad to hear that."),
    ("How are you?", "I am fine, thank you."),
    ("Let us continue.", "Yes, let us continue."),
    ("What a long day.", "Take a little rest."),
    ("I am hungry.", "Then it is time for a meal."),
    ("The train was late again.", "That is annoying."),
    ("It is very hot today.", "Drink enough water."),
    ("It snows outside.", "Dress warmly."),
    ("I am going for a walk.", "Enjoy the fresh air."),
    ("My phone is empty.", "Then charge it for a while."),
    ("I lost my pencil.", "Perhaps it is under the table."),
    ("I am back.", "Welcome back."),
    ("Wait a moment.", "I am waiting."),
    ("Can you sing?", "I can only write."),
    ("Do you sleep?", "No, I am always awake."),
    ("Tell me a story.", "Once upon a time there was a small house by a lake."),
    ("Tell me a riddle.", "What has keys but opens no door? A piano."),
    ("What can you do?", "I can remember what you tell me and answer questions."),
    ("Goodbye.", "Goodbye, until next time."),
    ("See you tomorrow.", "See you tomorrow."),
    ("What is two plus two?", "Two plus two is four."),
    ("What is ten minus three?", "Ten minus three is seven."),
    ("Which colour has the sky?", "The sky is blue."),
    ("How many days has a week?", "A week has seven days."),
    ("How many hours has a day?", "A day has twenty-four hours."),
    ("What do cows eat?", "Cows eat grass."),
    ("Is ice cold?", "Yes, ice is frozen water."),
    ("What is the opposite of big?", "The opposite of big is small."),
    ("What is the opposite of early?", "The opposite of early is late."),
    ("Name a fruit.", "An apple is a fruit."),
    ("Name a colour.", "Green is a colour."),
    ("Where do fish live?", "Fish live in water."),
    ("Which season is the coldest?", "Winter is the coldest season."),
    ("What makes plants grow?", "Water, light and good soil."),
    ("What is a triangle?", "A shape with three sides."),
    ("How do I make tea?", "Pour hot water over the leaves and wait."),
    ("How do I fry an egg?", "Heat some butter and break the egg into the pan."),
    ("Why is the sky blue?", "Air scatters blue light more than red light."),
    ("Why do birds sing?", "Birds sing to call others and to mark their place."),
    ("What is a synonym of happy?", "A synonym of happy is glad."),
    ("Who wrote Hamlet?", "Shakespeare wrote Hamlet."),
    ("What is the capital of France?", "The capital of France is Paris."),
    ("What is the capital of Italy?", "The capital of Italy is Rome."),
    ("How many legs has a spider?", "A spider has eight legs."),
    ("Write a sentence about rain.", "The rain falls softly on the roof."),
    ("Write a sentence about the sea.", "The sea is calm and wide this morning."),
    ("Explain what a noun is.", "A noun is a word for a person, a place or a thing."),
    ("Give me a tip for the garden.", "Water the plants early in the morning."),
    ("Give me some good advice.", "Sleep enough and go outside every day."),
    ("I need a break.", "A short break does everybody good."),
    ("I do not feel well.", "I am sorry. Please rest and drink something warm."),
    ("We won the match!", "Congratulations!"),
    ("The coffee is cold.", "A fresh cup may help."),
    ("My desk is a mess.", "Begin with one corner."),
    ("The neighbours are loud.", "Perhaps a friendly word helps."),
    ("I read a good book.", "A good book is a fine companion."),
)
ASIDES = (
    "The weather was {a} and the {t} looked {b}.",
    "We talked about the {a} {t} for a while.",
    "Nobody had time to {d} the {t}.",
    "On {y} we had to {d} the {a} {t}.",
    "There was some {f} left from {y}.",
    "I could not find the {a} {t} {p} the {u}.",
    "It was a {a} day, and we were tired.",
    "Somebody left a {a} {t} {p} the door.",
    "The {e} took longer than we thought.",
    "After the {e} we ate {f} and went home.",
    "In the morning the {t} was {b}, as always.",
    "All in all it was a good week.",
    "I still have to {d} the {t} and the {u}.",
    "They say that the {a} {t} is better than the {u}.",
    "We had {f} for lunch.",
    "The {u} next to the {t} is still {b}.",
    "I wrote it all down so that I do not forget it.",
    "Everybody was happy with the {e}.",
)
"""Sentences of notes that nobody asks about: a and b adjectives, t and u things, d a deed, f a dish, e an event."""

SIGHTINGS = (
    "I saw a {a} {n}.",
    "There was a {n} {p} the {t}.",
    "A {n} slept {p} the {t}.",
    "We met a {a} {n} on {y}.",
    "Today I drew a {n}.",
    "A {a} {n} crossed the road.",
    "On {y} a {n} ran {p} the {t}.",
)
COUNT_QUESTIONS = (
    "How many {n}s did I mention?",
    "How many {n}s have I told you about?",
    "What is the number of {n}s that I mentioned?",
)
