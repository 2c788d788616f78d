"""Questions that need no memory, and chats about nothing in particular with their replies."""

QUESTIONS = (
    "How does a canal lock work?",
    "What is the square root of 196?",
    "Why is the sea salty?",
    "Translate 'the bridge is closed' into Italian.",
    "Name three animals that hibernate.",
    "What does photosynthesis mean?",
    "Who wrote Don Quixote?",
    "How many minutes are there in three hours?",
    "Write a short poem about fog.",
    "Give me a synonym for 'stubborn'.",
    "What is the boiling point of ethanol?",
    "Which gas do plants take up from the air?",
    "Explain what a linked list is.",
    "How do I boil rice without burning it?",
    "What language is spoken in Iceland?",
    "Name the planets between the sun and Mars.",
    "What is 144 divided by 9?",
    "How do you say 'thank you' in Portuguese?",
    "Write a Python function that counts vowels.",
    "What causes a rainbow?",
    "When did the Titanic sink?",
    "What is the opposite of 'generous'?",
    "Which river flows through Budapest?",
    "How many legs does a lobster have?",
    "Suggest a title for a story about a lost umbrella.",
    "What is an adverb?",
    "Why do cats purr?",
    "What does GDP stand for?",
    "Give me a tip for falling asleep faster.",
    "How far away is the moon?",
    "Who painted the Night Watch?",
    "What is the plural of 'ox'?",
    "Tell me a joke about a penguin.",
    "What is the difference between a virus and a bacterium?",
    "How do I undo the last commit in git?",
    "Which metal is liquid at room temperature?",
    "What is the main ingredient of hummus?",
    "Sort these words by length: plum, apricot, fig.",
    "What is inflation?",
    "Name a vegetable that is red.",
    "How many strings does a cello have?",
    "What is the tallest mountain in Africa?",
    "Can you explain recursion to a child?",
    "Which month has the fewest days?",
    "How does a pendulum clock keep time?",
    "What year comes after 1999?",
    "Write one sentence about autumn.",
    "What is a haiku?",
    "Is a whale a fish?",
    "Convert 5 kilometres to miles.",
)
"""General knowledge and small tasks: nothing that anybody told."""

SMALL_TALK = (
    ("Good morning! How are you today?", "Good morning! I am well, thank you. How can I help you?"),
    ("It has been raining since Sunday.", "That sounds dreary. A good time for a book and a warm drink."),
    ("I could not sleep because of the wind.", "I am sorry to hear that. Earplugs may help tonight."),
    ("Can you recommend a board game for two?", "Try a tile-laying game: quick to learn and different every time."),
    ("The traffic was terrible again.", "That is frustrating. Perhaps leaving a little earlier helps."),
    ("What should I cook with leftover potatoes?", "A potato omelette is quick, and so is a warm salad with onions."),
    ("I have a headache.", "Drink some water and rest your eyes for a while."),
    ("My computer is slow today.", "Close what you do not need and restart it; that often helps."),
    ("Thanks for your help yesterday.", "You are welcome! I am glad it was useful."),
    ("Do you like music?", "I do not hear it, but I enjoy talking about it."),
    ("I am thinking of buying a bicycle.", "A good idea. Try a few frames before you decide."),
    ("The soup was too salty.", "Add a peeled potato and some water, and let it simmer."),
    ("How do I get wax off a tablecloth?", "Let it harden, scrape it off, and iron the rest into paper."),
    ("I finished all my tasks early.", "Well done! Enjoy the free time."),
    ("Tell me something interesting.", "Honey can stay edible for thousands of years."),
    ("The cinema was nearly empty.", "Then you had the best seats. Was the film any good?"),
    ("I want to learn how to draw.", "Start with simple shapes and draw a little every day."),
    ("Which tea helps against a cold?", "Ginger tea with honey soothes the throat."),
    ("The children are loud today.", "Perhaps a walk outside would tire them out."),
    ("How long should I boil an egg?", "About seven minutes for a soft yolk, ten for a hard one."),
    ("I dropped my cup this morning.", "What a pity. I hope nobody was hurt."),
    ("Could you check this sentence: He go home?", "It should be: He goes home."),
    ("My plants look sad.", "They may need more light, or less water."),
    ("What is a good way to start a speech?", "With a short story that leads to your subject."),
    ("The new shop around the corner is expensive.", "New shops often are. The market may be cheaper."),
    ("I am bored.", "How about a riddle, or a walk?"),
    ("It is my first day after the holidays.", "Welcome back! Start with the small things."),
    ("Should I bring an umbrella?", "If the sky is grey, it does no harm."),
    ("The meeting took far too long.", "An agenda and a fixed end help next time."),
    ("What is a polite way to say no?", "Thank them, decline clearly, and wish them well."),
    ("The pizza arrived cold.", "A few minutes in a hot pan will crisp it up."),
    ("I am learning to type faster.", "Practise a little each day and do not look at the keys."),
    ("My shoes are wet.", "Stuff them with newspaper and let them dry slowly."),
    ("Everyone here is on holiday.", "Then it is a quiet time to get things done."),
    ("I need a name for a blog.", "Something short that says what you write about works best."),
    ("The lift is out of order again.", "The stairs are good exercise, at least."),
)
"""What a user says in passing, and what a helpful assistant replies."""

LEAD_INS = ("", "", "By the way: ", "Please remember this: ", "Just so you know, ", "For later: ", "A note for you. ")
"""How a user may begin to tell a fact; none most often."""

ACKNOWLEDGEMENTS = (
    "Okay, I will remember that.",
    "Thank you for telling me!",
    "Got it.",
    "Noted. Is there anything else I can help you with?",
    "I understand. How can I help you with that?",
)

DENIALS = ("I am sorry, I do not know that.", "I do not have that information.", "You have not told me yet.")

FOLLOW_UPS = ("What is a good name for a boat?", "Thank you, that was all.", "Now tell me about volcanoes.")

NULL_PROMPTS = ("N/A",)
"""The content-free user turn whose cue calibrates the votes."""
