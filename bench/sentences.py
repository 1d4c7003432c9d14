"""Texts of our own that a similarity is measured on: what means the same, what answers what, and all else."""

# Pairs of paraphrases.
PARAPHRASES = (
    ("How do I reset the password of my account?", "I forgot my login password, how can I set a new one?"),
    ("The train to the coast leaves at half past nine.", "At 9:30 the coastal train departs."),
    (
        "Vaccines train the immune system to recognise a virus.",
        "A vaccine teaches the body's defences to know a virus.",
    ),
    ("What is the boiling point of water at sea level?", "At which temperature does water boil at sea level?"),
    ("The company's profit fell by a tenth last year.", "Last year the firm earned ten percent less."),
    ("Please water the plants twice a week.", "The plants need to be watered two times every week."),
    ("Who wrote the novel about the white whale?", "Which author wrote the book on a white whale?"),
    ("The bridge was closed because of strong wind.", "Strong winds led to the closing of the bridge."),
    ("How many planets orbit the sun?", "What is the number of planets in the solar system?"),
    ("Bread rises because yeast makes carbon dioxide.", "Yeast produces carbon dioxide, which makes the dough rise."),
    ("The court found the contract to be void.", "According to the judges the contract is not valid."),
    ("Can dogs eat chocolate?", "Is chocolate safe for dogs?"),
    ("The glacier has lost half its ice since 1950.", "Since 1950 half of the glacier's ice has melted."),
    ("How can I sort a list in Python?", "What is the way to order a Python list?"),
    ("She plays the violin in a city orchestra.", "She is a violinist in the orchestra of the city."),
    ("The new law bans plastic bags in shops.", "Shops may no longer give out plastic bags under the new law."),
    ("What causes the tides in the ocean?", "Why does the sea have tides?"),
    ("The patient should take two tablets after meals.", "After eating, two pills are to be taken by the patient."),
    ("Our flight was delayed by three hours.", "We waited three hours because the plane was late."),
    ("How do bees make honey?", "In what way is honey produced by bees?"),
    ("The museum is free on the first Sunday of the month.", "Entry to the museum costs nothing on first Sundays."),
    ("Sharks existed before trees did.", "There were sharks on earth earlier than trees."),
    ("What is the capital of Australia?", "Which city is Australia's capital?"),
    ("The mechanic replaced the brakes of the car.", "The car got new brakes from the mechanic."),
    ("Why is the sky blue?", "What makes the sky look blue?"),
    ("The recipe needs three eggs and a cup of sugar.", "For this dish you take a cup of sugar and three eggs."),
    ("Volcanic ash stopped air traffic for a week.", "For a week no planes flew because of ash from a volcano."),
    ("How long does it take to learn to drive?", "What time is needed for learning to drive a car?"),
    ("The server answers with status 503 when it is overloaded.", "An overloaded server returns a 503 status."),
    ("The queen moves in any direction on a chessboard.", "In chess the queen may go in every direction."),
)

# A question, and a passage that answers it.
ANSWERED = (
    (
        "How often should I change the oil of my car?",
        "Engine oil ages with heat and distance. For most cars the makers advise a change every 15,000 "
        "kilometres or once a year, whichever comes first; short trips in winter shorten that.",
    ),
    (
        "What is the difference between weather and climate?",
        "Weather is the state of the air here and now: rain this afternoon, wind tomorrow. Climate is its "
        "average over thirty years or more, with how far single years stray from it.",
    ),
    (
        "Why do leaves turn red in autumn?",
        "When days get shorter, trees take the green pigment out of their leaves. Yellow ones that were "
        "there all along become visible, and some species make red anthocyanins from sugar left in the "
        "leaf.",
    ),
    (
        "How do I take back the last commit in git?",
        "To undo the newest commit and keep its changes in the working tree, run git reset --soft HEAD~1. "
        "If it has been pushed already, git revert makes a new commit that cancels it.",
    ),
    (
        "Who may vote in a general election?",
        "Every citizen of at least eighteen years who is on the electoral roll has a vote. People who "
        "live abroad stay on the roll of the place where they lived last.",
    ),
    (
        "What should I do about a nosebleed?",
        "Sit up, lean forward and pinch the soft part of the nose for ten minutes. Do not lie down. If it "
        "still bleeds after half an hour, see a doctor.",
    ),
    (
        "How does a heat pump warm a house?",
        "A refrigerant takes up heat from outside air at a low temperature, is compressed, and so gets "
        "hot enough to give that heat to the water of the radiators. One unit of electricity moves three "
        "or four of heat.",
    ),
    (
        "When was printing with movable type invented?",
        "Single characters of baked clay were set and printed in China in the eleventh century. In Mainz "
        "Gutenberg cast metal type around 1450, and his press spread over Europe within decades.",
    ),
    (
        "Is it safe to reheat rice?",
        "Cooked rice can hold spores that survive cooking. Cool it within an hour, keep it in the fridge "
        "for a day at most, and heat it only once until it steams all the way through.",
    ),
    (
        "What does a compiler do?",
        "It reads source text, checks its syntax and types, turns it into an intermediate form that it "
        "can improve, and emits machine instructions for one kind of processor.",
    ),
)
