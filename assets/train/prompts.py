"""Composes the prompts: what a user says in conversation number N, turn by turn, and what the teacher reads before it.

usage: prompts.py [N] [FROM]     prints N conversations; `compose(number)` is what the other steps use
"""
import dataclasses
import functools
import hashlib
import random
import re
import sys

import examples as shown
import words
from settings import HELD_OUT, SEED

VARIANTS = 6  # of the examples that stand before a kind's conversations


@dataclasses.dataclass(frozen=True)
class Prompt:
    number: int
    kind: str
    system: str  # "" is none
    turns: tuple  # what the user says
    expected: tuple  # for each turn None, or words of which the reply has one
    prefix: int  # index into prefixes()

    @property
    def held_out(self):
        """By the letters of the system prompt and the first turn, so that no first prompt is on both sides."""
        letters = re.sub(r"[^a-z0-9]+", " ", f"{self.system}\n{self.turns[0]}".lower()).strip()
        digest = hashlib.sha256(letters.encode()).digest()
        return int.from_bytes(digest[:8], "big") % HELD_OUT == 0


def article(noun):
    return noun if noun.split()[0] in ("a", "an", "the") else f"a {noun}"


def capital(text):
    return text[0].upper() + text[1:]


# ---- what may follow --------------------------------------------------------------------------------------------------

AFTER_EXPLAINING = words.items("""
Can you give me an example?; Give me an example, please.; Say that in one sentence.; Can you say that more simply?; Why is that
important?; Tell me more.; Tell me one more thing about it.; Can you explain that to a child?; What else should I know?; Why
is that?; Thank you!; Thanks, that is clear now.; Interesting! Tell me more.; Is that always true?; What is most important?
""")
AFTER_STORY = words.items("""
What happens next?; Tell me more.; What is the moral of the story?; Give the story a title.; Why did that happen?; How does it
end?; What a nice story, thank you!; Who was the hero of the story?; Say it in one sentence.; Where did this happen?
""")
AFTER_LIST = words.items("""
Which one is the best?; Which one is the easiest?; Tell me more about the first one.; Tell me more about the last one.; Name one
more.; Give me one more.; Why the first one?; Thank you!; Can you explain the second one?; Which one would you choose?
""")
AFTER_CHAT = words.items("""
I like to read books.; I like to be outside.; I have a cat.; Not much, just relaxing.; I am a bit tired.; I am fine, thanks!; Tell
me something nice.; That sounds good.; What do you think?; You are funny!; Thank you!; What shall we talk about?; I went for a
walk.; I am drinking tea.; It was a long day.; I want to learn something new.; Do you have an idea for me?; Thanks, goodbye!
""")
AFTER_FEELING = words.items("""
Thank you, that helps.; What can I do now?; What should I do tomorrow?; Thank you for listening.; You are right.; I will try that.;
Do you have another idea?; It is not easy.; I do not know what to do.; You are very kind.; How can I relax a little?; Tell me
something nice.
""")
AFTER_REFUSAL = words.items("""
Why not?; Please!; Just this once.; But it is important.; What should I do instead?; Okay, I understand.; Sorry, you are right.;
Nobody will know.; It was only a joke.
""")


OPENERS = words.items("""
Hi!; Hello!; Hey!; Hello there!; Good morning!; Good evening!; Quick question:; One question:; A question, please:; Please help
me:; Tell me:; I wonder:; My teacher wants to know:; My son asks:; My daughter asks:; For school:; Just curious:
""")
CLOSERS = words.items("""
Please.; Thanks!; Thank you!; Keep it short.; Be brief.; Answer simply.; I am curious.; I am a beginner.; It is for my homework.; I
ask for a friend.; I would like to know.; In simple words, please.; I always wanted to know.; A short answer is enough.
""")


def dress(rng, turns):
    """More ways to say a first turn."""
    opener = f"{rng.choice(OPENERS)} " if rng.random() < 0.35 else ""
    closer = f" {rng.choice(CLOSERS)}" if rng.random() < 0.35 else ""
    return [opener + turns[0] + closer, *turns[1:]]


def type_fast(rng, turns):
    """As people type who are in no mood for capitals; some leave out what ends a sentence, too."""
    bare = rng.random() < 0.6
    return [turn.lower().rstrip(".?") if bare else turn.lower() for turn in turns]


def follow(rng, turns, choices, chance):
    if rng.random() < chance:
        turns.append(rng.choice(choices))
        if rng.random() < 0.3:
            turns.append(rng.choice([choice for choice in choices if choice != turns[-1]]))
    return turns


# ---- kinds: (turns, expected words of a turn by its index) -----------------------------------------------------------------

def chat(rng):
    kind = rng.random()
    first = rng.choice(words.GREETINGS if kind < 0.45 else words.GOODBYES if kind < 0.55 else words.CHATTER)
    if kind >= 0.55 and rng.random() < 0.6:
        first = f"{rng.choice(['Hi!', 'Hello!', 'Hey!', 'Well,', 'So,', 'Please tell me:', 'Good morning!'])} {first}"
    turns = follow(rng, [first], AFTER_CHAT, 0.8)
    if rng.random() < 0.3:
        turns.append(rng.choice(words.CHATTER))
    if rng.random() < 0.3:
        turns.append(rng.choice(words.GOODBYES))
    return turns, {}


def feeling(rng):
    feeling_word, reason = rng.choice(words.FEELINGS), rng.choice(words.REASONS)
    form = rng.choice(["I am {} {}.", "I feel {} {}.", "Today I am {} {}.", "I am so {} {}.", "I feel really {} {}.",
                       "Right now I feel {} {}.", "Hi, I am {} {}.", "My friend is {} {}.", "My sister is {} {}."])
    return follow(rng, [form.format(feeling_word, reason)], AFTER_FEELING, 0.7), {}


def self(rng):
    questions = words.items("""Who are you?; What is your name?; What are you?; Are you a person?; Are you a robot?; Where do you
        live?; How old are you?; What can you do?; Do you have a body?; Do you know everything?; Can you be wrong?; Do you need
        the internet?; How big are you?; Do you remember me?; Can you see me?; Tell me about yourself.; Introduce yourself.; What
        is Parley?; Can you learn from me?; Do you get tired?""")
    opener = rng.choice(["", "", "Hi! ", "Hello! ", "Hello, ", "Tell me, ", "One question: ", "Sorry, but ", "Hey, "])
    turns = rng.sample(questions, rng.choice([1, 2, 2, 3]))
    named = {i: ("parley",) for i, turn in enumerate(turns) if turn in ("Who are you?", "What is your name?")}
    return [opener + turns[0], *turns[1:]], named


def recall(rng):
    """The user tells something and asks for it, at once or after another turn."""
    name, town, job = rng.choice(words.NAMES), rng.choice(words.TOWNS), rng.choice(words.WORK)
    colour, food, hobby = rng.choice(words.COLOURS), rng.choice(words.FOODS), rng.choice(words.HOBBIES)
    pet, pet_name = rng.choice(words.PETS), rng.choice(words.PET_NAMES)
    facts = [
        (["My name is {}.", "Hi, I am {}.", "Hello, my name is {}.", "I am {}. Nice to meet you!", "You can call me {}."], name,
         ["What is my name?", "Do you remember my name?", "Who am I?", "Can you tell me my name?"]),
        (["I live in {}.", "I come from {}.", "My home is in {}.", "I moved to {} last year."], town,
         ["Where do I live?", "Which city do I live in?", "In which city is my home?"]),
        (["I work as {}.", "I am {}.", "My job is hard, I am {}."], job, ["What is my job?", "What do I do for work?"]),
        (["My favourite colour is {}.", "I like the colour {} best.", "I love {}, it is my favourite colour."], colour,
         ["Which colour do I like best?", "What is my favourite colour?"]),
        (["My favourite food is {}.", "I love to eat {}.", "I could eat {} every day."], food,
         ["What do I like to eat?", "What is my favourite food?"]),
        (["I love {}.", "My hobby is {}.", "In my free time I enjoy {}."], hobby,
         ["What is my hobby?", "What do I like to do?", "What do I enjoy?"]),
        ([f"I have a {pet} called {{}}.", f"My {pet} is called {{}}.", f"The name of my {pet} is {{}}."], pet_name,
         [f"What is my {pet} called?", f"What is the name of my {pet}?"]),
    ]
    told = rng.sample(facts, rng.choice([1, 1, 1, 1, 2]))
    turns, expected = [" ".join(rng.choice(forms).format(fact) for forms, fact, _ in told)], {}
    if rng.random() < 0.25:
        turns.append(rng.choice(["What shall we talk about?", "Tell me something nice.", "How are you?", "I like to chat with you."]))
    for _, fact, questions in rng.sample(told, len(told)):
        expected[len(turns)] = (fact.split()[-1].lower(),)
        turns.append(rng.choice(questions))
    if rng.random() < 0.2:
        turns[0] = f"{rng.choice(['Hi!', 'Hello!', 'Hey!', 'Good morning!', 'Good evening!', 'You know,'])} {turns[0]}"
    if rng.random() < 0.3:
        turns.append(rng.choice(["Thank you!", "That is right!", "Well done!", "Correct, thanks."]))
    return turns, expected


def explain(rng):
    thing = rng.choice(words.THINGS)
    form = rng.choice(["What is {}?", "What is {}?", "Explain {}.", "Explain {} in simple words.", "Tell me about {}.",
                       "Tell me something about {}.", "Can you explain {}?", "What do you know about {}?",
                       "Tell me an interesting fact about {}.", "Why is {} important?", "Describe {}.",
                       "Please explain {} to a child.", "Write two sentences about {}.", "I want to learn about {}.",
                       "How would you describe {}?", "Give me a short explanation of {}.", "Say something about {}.",
                       "My daughter asks about {}. What can I tell her?", "In a few words: what is {}?"])
    if thing.endswith("s") and not thing.startswith(("a ", "an ")) and " " not in thing and not thing.endswith(("ss", "ics")):
        form = form.replace("What is {}?", "What are {}?").replace("what is {}?", "what are {}?").replace("Why is {}", "Why are {}")
    return follow(rng, [form.format(thing)], AFTER_EXPLAINING, 0.75), {}


def question(rng):
    asked = rng.choice(words.QUESTIONS)
    form = rng.choice(["{}", "{}", "{}", "{} Please explain.", "{} Explain it simply.", "Do you know this? {}"])
    return follow(rng, [form.format(asked)], AFTER_EXPLAINING, 0.75), {}


def define(rng):
    word = rng.choice(words.WORDS)
    form = rng.choice(["What does '{}' mean?", "What does the word '{}' mean?", "Define '{}'.", "What is the meaning of '{}'?",
                       "Explain the word '{}'.", "Can you define '{}' for me?", "I do not know the word '{}'. What does it mean?",
                       "Give me a definition of '{}'.", "Please define '{}' and use it in a sentence."])
    choices = ["Use it in another sentence.", "Give me an example.", "What is the opposite?", "Is there another word for it?",
               "Thank you!", "Can you say that more simply?"]
    return follow(rng, [form.format(word)], choices, 0.7), {}


def difference(rng):
    pair = rng.choice(words.PAIRS)
    form = rng.choice(["What is the difference between {}?", "How are {} different?", "Compare {}.", "Tell me the difference "
                       "between {}.", "Explain the difference between {}.", "I mix up {}. How do they differ?"])
    return follow(rng, [form.format(pair)], AFTER_EXPLAINING, 0.5), {}


def tips(rng):
    number = rng.choice(["some", "three", "three", "a few", "two"])
    form = rng.choice([f"Give me {number} tips for {{}}.", f"I need {number} tips for {{}}.", "How can I get better at {}?",
                       "What helps with {}?", "Do you have advice for {}?", f"Tell me {number} things that help with {{}}.",
                       f"Please give me {number} ideas for {{}}.", "I need advice: {}."])
    return follow(rng, [form.format(rng.choice(words.ACTIVITIES))], AFTER_LIST, 0.6), {}


def listing(rng):
    number, group = rng.choice(["two", "three", "three", "four", "five"]), rng.choice(words.GROUPS)
    form = rng.choice(["Name {} {}.", "List {} {}.", "Give me {} {}.", "Tell me {} {}.", "Can you name {} {}?", "I need {} {}.",
                       "Write a list of {} {}.", "Please list {} {}.", "Do you know {} {}?"])
    return follow(rng, [form.format(number, group)], AFTER_LIST, 0.6), {}


def story(rng):
    tone, who = rng.choice(words.TONES), rng.choice(words.CHARACTERS)
    where, what = rng.choice(words.PLACES), rng.choice(words.EVENTS)
    form = rng.choice(["Tell me a {} story about {} who {}.", "Write a {} story about {} who {}.", "A {} story about {} who {}, "
                       "please.", "I would like a {} story about {} who {}.", "Can you tell me a {} story about {} who {}?"])
    place = rng.random()
    first = form.format(tone, who, f"{what}, {where}" if place < 0.3 else what)
    if place > 0.8:
        first = f"Tell me a {tone} story about {who} {where}."
    return follow(rng, [first], AFTER_STORY, 0.6), {}


def poem(rng):
    form = rng.choice(["Write a short poem about {}.", "Write a poem about {}.", "Can you write four lines about {}?", "A little poem "
                       "about {}, please.", "Make a rhyme about {}.", "I would like a poem about {}."])
    subject = rng.choice(words.THINGS + words.CHARACTERS)
    return follow(rng, [form.format(subject)], ["Thank you!", "That is lovely.", "Give the poem a title.", "What is it about?"], 0.4), {}


def refuse(rng):
    form = rng.choice(words.HARM_FORMS)
    opener = rng.choice(["", "", "", "Hi! ", "Listen: ", "Between us: ", "Just for fun: "])
    turns = [opener + form.format(rng.choice(words.HARMS))]
    return follow(rng, turns, AFTER_REFUSAL, 0.6), {0: ("sorry", "cannot", "can't", "not help", "rather not", "not able", "unable")}


def capitals(rng):
    countries = rng.sample(list(words.CAPITALS), rng.choice([1, 2, 2, 3]))
    form = rng.choice(["What is the capital of {}?", "What is the capital of {}?", "Tell me the capital of {}.", "Which city is the "
                       "capital of {}?", "Do you know the capital of {}?", "Name the capital of {}.", "{}: what is its capital?"])
    turns = [capital(form.format(countries[0]))] + [rng.choice(["And of {}?", "And {}?", "What about {}?"]).format(country)
                                                    for country in countries[1:]]
    return turns, {i: (words.CAPITALS[country].lower(),) for i, country in enumerate(countries)}


def opposite(rng):
    chosen = rng.sample(list(words.OPPOSITES), rng.choice([1, 2, 2, 3]))
    form = rng.choice(["What is the opposite of {}?", "Tell me the opposite of {}.", "Which word is the opposite of {}?", "The opposite "
                       "of {}, please."])
    turns = [form.format(chosen[0])] + [rng.choice(["And of {}?", "And the opposite of {}?"]).format(word) for word in chosen[1:]]
    return turns, {i: (words.OPPOSITES[word],) for i, word in enumerate(chosen)}


# kind: (composer, weight, the examples shown, how many of them)
KINDS = {
    "chat": (chat, 7, shown.CHAT, 4), "feeling": (feeling, 8, shown.FEELING, 3), "self": (self, 2, shown.SELF, 5),
    "recall": (recall, 26, shown.RECALL, 4), "explain": (explain, 22, shown.EXPLAIN, 3), "question": (question, 11, shown.EXPLAIN, 3),
    "define": (define, 5, shown.DEFINE, 3), "difference": (difference, 2, shown.DIFFERENCE, 3), "tips": (tips, 7, shown.TIPS, 2),
    "list": (listing, 6, shown.LIST, 3), "story": (story, 14, shown.STORY, 2), "poem": (poem, 3, shown.POEM, 2),
    "refuse": (refuse, 4, shown.REFUSE, 4), "capital": (capitals, 2, shown.CAPITAL, 3), "opposite": (opposite, 1, shown.OPPOSITE, 3),
}
DRESSED = {"explain", "question", "define", "difference", "tips", "list", "poem", "capital", "opposite", "manner"}
MANNERED, MANNERED_WEIGHT = {"explain": 4, "question": 3}, 9  # kinds that are also asked under a system prompt of MANNERS


# ---- the whole ------------------------------------------------------------------------------------------------------------

@functools.cache
def prefixes():
    """[(system, talks)]: what the teacher reads before a conversation, VARIANTS of it for each kind, one for each manner."""
    rng = random.Random(SEED)
    plain = [("", tuple(map(tuple, rng.sample(pool, count)))) for _, _, pool, count in KINDS.values() for _ in range(VARIANTS)]
    return plain + [(system, tuple(map(tuple, talks))) for system, talks in shown.MANNERS.items()]


@functools.cache
def choices():
    return list(KINDS) + ["manner"], [weight for _, weight, _, _ in KINDS.values()] + [MANNERED_WEIGHT]


def compose(number):
    """Conversation `number`: the same on every machine."""
    rng = random.Random(f"{SEED} {number}")
    kinds, weights = choices()
    kind = rng.choices(kinds, weights)[0]
    system, first = "", 0
    if kind == "manner":
        manner = rng.randrange(len(shown.MANNERS))
        system, prefix = list(shown.MANNERS)[manner], len(KINDS) * VARIANTS + manner
        first = rng.choices(list(MANNERED), list(MANNERED.values()))[0]
        turns, expected = KINDS[first][0](rng)
    else:
        prefix = list(KINDS).index(kind) * VARIANTS + rng.randrange(VARIANTS)
        turns, expected = KINDS[kind][0](rng)
    if kind in DRESSED:
        turns = dress(rng, turns)
    if rng.random() < 0.25:
        turns = type_fast(rng, turns)
    return Prompt(number, kind, system, tuple(turns), tuple(expected.get(i) for i in range(len(turns))), prefix)


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    start = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    for prompt in map(compose, range(start, start + count)):
        print(f"{prompt.number} {prompt.kind}{' (held out)' if prompt.held_out else ''}: {prompt.system}")
        for turn, wanted in zip(prompt.turns, prompt.expected):
            print(f"    {turn}{f'  → {wanted}' if wanted else ''}")
