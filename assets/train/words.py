"""What the prompts are made of: our own lists of topics, questions, characters, feelings. Items end at ';'."""


def items(text):
    return [" ".join(item.split()) for item in text.split(";") if item.strip()]


# Things that a small model can say something true about: "Explain …", "What is …?", "Tell me about …"
THINGS = items("""
rain; snow; hail; fog; the wind; thunder; lightning; a rainbow; clouds; the seasons; spring; summer; autumn; winter;
sunlight; shadows; the sunrise; the sunset; day and night; the moon; the sun; the stars; planets; comets; gravity;
magnets; electricity; sound; echoes; light; colours; heat; ice; steam; the water cycle; rivers; lakes; oceans; waves;
tides; islands; mountains; valleys; deserts; forests; rainforests; caves; volcanoes; earthquakes; glaciers; waterfalls;
soil; rocks; sand; salt; gold; iron; glass; paper; wood; plastic; cotton; wool; leather; seeds; roots; leaves; flowers;
trees; grass; moss; mushrooms; fruit; vegetables; bees; ants; butterflies; spiders; snails; worms; frogs; turtles; snakes;
lizards; fish; sharks; whales; dolphins; octopuses; crabs; birds; owls; eagles; penguins; ducks; chickens; cats; dogs;
horses; cows; sheep; goats; pigs; rabbits; mice; squirrels; hedgehogs; foxes; wolves; bears; deer; lions; tigers;
elephants; giraffes; monkeys; kangaroos; bats; camels; dinosaurs; the heart; the lungs; the brain; bones; muscles; skin;
teeth; the eyes; the ears; sleep; dreams; breathing; digestion; a healthy diet; vitamins; exercise; a cold; a fever;
washing your hands; bread; milk; cheese; butter; eggs; rice; pasta; soup; salad; honey; sugar; chocolate; tea; coffee;
orange juice; pizza; pancakes; cakes; a recipe; a garden; a greenhouse; compost; farming; a farm; a market; a shop; money;
a bank; saving money; a budget; a job; a school; a library; a hospital; a museum; a theatre; a post office; a village;
a city; a bridge; a road; a railway; a train; a bicycle; a car; a bus; a boat; a ship; an aeroplane; a rocket; a balloon;
a kite; a wheel; a lever; a pulley; a clock; a calendar; a compass; a map; a mirror; a lens; a telescope; a microscope;
a thermometer; a camera; a radio; a television; a telephone; a computer; a keyboard; the internet; an email; a password;
a robot; a computer program; a battery; a light bulb; a windmill; a solar panel; recycling; pollution; climate; weather
forecasts; music; a song; rhythm; a piano; a guitar; a violin; a drum; a choir; an orchestra; dancing; painting; drawing;
sculpture; photography; a poem; a novel; a fairy tale; a diary; a letter; an alphabet; a language; reading; writing;
grammar; a dictionary; a newspaper; history; a king; a queen; a castle; a knight; the pyramids; a law; a vote; democracy;
a government; a mayor; taxes; peace; a holiday; a birthday; a wedding; a festival; a game; chess; football; tennis;
swimming; running; hiking; camping; fishing; knitting; sewing; pottery; cooking; baking; gardening; astronomy; biology;
chemistry; physics; geography; mathematics; a triangle; a circle; a square; fractions; percentages; a number line;
evolution; photosynthesis; a food chain; an ecosystem; hibernation; migration; camouflage; a fossil; an atom; a molecule;
energy; friction; pressure; oxygen; carbon dioxide; a vacuum; a satellite; the Milky Way; a black hole; an eclipse;
the North Pole; the South Pole; the equator; a continent; Africa; Asia; Europe; South America; Australia; Antarctica
""")

# "What does … mean?"
WORDS = items("""
patience; courage; kindness; honesty; friendship; trust; hope; joy; curiosity; gratitude; generosity; wisdom; freedom;
justice; loyalty; humility; respect; responsibility; discipline; determination; ambition; creativity; imagination;
confidence; empathy; sympathy; compassion; forgiveness; envy; pride; anger; fear; grief; loneliness; boredom; nostalgia;
optimism; pessimism; perseverance; tolerance; modesty; integrity; harmony; balance; tradition; culture; community;
neighbour; stranger; guest; host; hero; villain; mentor; apprentice; expert; amateur; volunteer; witness; ancestor;
generation; century; decade; deadline; schedule; routine; habit; hobby; talent; skill; effort; success; failure; mistake;
lesson; advice; opinion; fact; rumour; promise; secret; compromise; agreement; argument; debate; question; answer; puzzle;
riddle; mystery; adventure; journey; destination; souvenir; luggage; passport; border; harbour; horizon; landscape;
wilderness; meadow; orchard; harvest; shelter; cottage; lantern; candle; fireplace; blanket; pillow; umbrella; ladder;
hammer; basket; bottle; envelope; stamp; receipt; bargain; discount; customer; salary; profit; loan; debt; wealth; poverty;
fragile; sturdy; ancient; modern; gentle; fierce; shy; brave; clever; stubborn; cheerful; gloomy; calm; anxious; eager;
reluctant; generous; selfish; humble; arrogant; sincere; polite; rude; punctual; lazy; diligent; careful; careless; bold;
cautious; ordinary; rare; unique; precious; vivid; faint; smooth; rough; bitter; sour; spicy; crisp; transparent;
flexible; temporary; permanent; frequent; sudden; gradual; obvious; vague; abstract; concrete; essential; optional;
to hesitate; to admire; to borrow; to lend; to celebrate; to complain; to apologise; to encourage; to explore; to invent;
to discover; to imagine; to persuade; to postpone; to predict; to protect; to recover; to share; to whisper; to wander
""")

# Whole questions with short answers that do not depend on the day or the person.
QUESTIONS = items("""
Why is the sky blue?; Why is the sea salty?; Why do leaves change colour in autumn?; Why does ice float?; Why do cats purr?;
Why do dogs bark?; Why do birds sing?; Why do bees make honey?; Why do we sleep?; Why do we dream?; Why do we yawn?;
Why do we laugh?; Why do we cry?; Why do we need water?; Why do we get hungry?; Why do plants need light?; Why is grass
green?; Why do stars twinkle?; Why does the moon change its shape?; Why do we have seasons?; Why is it dark at night?;
Why does it rain?; Why is snow white?; Why do volcanoes erupt?; Why do earthquakes happen?; Why do ships float?; How do
aeroplanes fly?; How do birds fly?; How do fish breathe?; How do plants drink water?; How does a seed grow?; How do
caterpillars become butterflies?; How do spiders make webs?; How do bees find flowers?; How do bats find their way?; How
does a clock work?; How does a bicycle stay upright?; How does a battery work?; How does a light bulb work?; How does a
fridge keep food cold?; How does soap clean our hands?; How is bread made?; How is cheese made?; How is paper made?; How is
glass made?; How is chocolate made?; How is butter made?; How does a telescope work?; How does a camera take a picture?; How
do magnets work?; How do we hear sounds?; How do we see colours?; How do our muscles work?; How does the heart work?; Why
should we brush our teeth?; Why should we eat vegetables?; Why should we exercise?; Why should we wash our hands?; Why is
sleep important?; Why is reading good for us?; Why is it good to learn a language?; Why is music important?; Why is it good
to have friends?; Why should we save water?; Why should we recycle?; Why are trees important?; Why are bees important?; Why
are oceans important?; Why do people travel?; Why do people keep pets?; Why do people tell stories?; Why do we have rules?;
Why do we have money?; Why do we celebrate birthdays?; What makes a good friend?; What makes a good story?; What makes a
good teacher?; What is the fastest land animal?; What is the largest animal in the world?; What is the tallest animal?; What
do pandas eat?; What do rabbits eat?; What do owls eat?; What do koalas eat?; Where do penguins live?; Where do polar bears
live?; Where do camels live?; Where does the sun rise?; Where does rain come from?; Where does milk come from?; Where does
honey come from?; Where does wool come from?; Which planet is closest to the sun?; Which planet is the largest?; Which
planet has rings?; How many days are in a week?; How many months are in a year?; How many legs does a spider have?; How
many legs does an insect have?; How many hours are in a day?; How many minutes are in an hour?; How many continents are
there?; What colour do you get when you mix blue and yellow?; What colour do you get when you mix red and yellow?; What is
frozen water called?; What is a baby cat called?; What is a baby dog called?; What is the opposite of day?; At what
temperature does water freeze?; At what temperature does water boil?; What gas do we breathe in to live?; What is the
hottest season?; What is the coldest season?; What do we use an umbrella for?; What do we use a hammer for?; What do we use
a map for?; What does a doctor do?; What does a teacher do?; What does a farmer do?; What does a baker do?; What does a
firefighter do?; What does a librarian do?; What does a gardener do?; What does a pilot do?; What does an engineer do?;
What does a scientist do?; What does a judge do?; What does a carpenter do?; What does a nurse do?; What does a chef do?
""")

PAIRS = items("""
a lake and a sea; a river and a stream; a hill and a mountain; a village and a city; a moth and a butterfly; a frog and a
toad; a crocodile and an alligator; a bee and a wasp; a rabbit and a hare; a horse and a donkey; a sheep and a goat; a duck
and a goose; fruit and vegetables; tea and coffee; butter and cheese; sugar and honey; bread and cake; a cup and a glass; a
spoon and a fork; a book and a magazine; a poem and a story; a fact and an opinion; a fear and a worry; a need and a wish;
a job and a hobby; a friend and a neighbour; weather and climate; snow and hail; fog and clouds; a star and a planet; the
sun and the moon; a comet and a planet; speed and strength; weight and height; a bicycle and a motorbike; a bus and a train;
a boat and a ship; a piano and a guitar; a drum and a violin; singing and speaking; painting and drawing; walking and
running; cats and dogs; lions and tigers; summer and winter; morning and evening; a house and a flat; a school and a
university; a doctor and a nurse; a cook and a baker; a letter and an email; a radio and a television; a tree and a bush;
a seed and a fruit; sand and soil; wood and paper; gold and silver; a circle and a square; adding and multiplying; saving
and spending; borrowing and stealing; being alone and being lonely; hearing and listening; seeing and watching
""")

# "Give me tips for …"
ACTIVITIES = items("""
learning to cook; baking bread; making soup; cooking for a large family; keeping a kitchen clean; growing tomatoes; starting
a small garden; looking after house plants; keeping a cat happy; training a dog; looking after a rabbit; feeding birds in
winter; learning a new language; remembering new words; reading more books; writing a diary; writing a short story; writing a
letter to a friend; writing an email to a teacher; learning to draw; painting with watercolours; taking better photographs;
learning the piano; learning the guitar; singing in tune; learning to dance; learning to swim; starting to run; staying fit
at home; stretching in the morning; going for long walks; hiking in the mountains; camping with children; packing a suitcase;
planning a holiday; travelling by train; a long car journey; visiting a museum; moving to a new house; tidying a room;
organising a desk; cleaning windows; washing clothes; saving money; planning a budget; buying a present; saving energy at
home; saving water; wasting less food; sorting rubbish; riding a bicycle in town; repairing a bicycle; preparing for an exam;
doing homework; staying focused; taking good notes; giving a talk; speaking in front of people; a job interview; the first
day at a new job; the first day at a new school; working from home; working in a team; leading a team; managing time; waking
up early; falling asleep; sleeping better; relaxing after work; dealing with stress; dealing with anger; being more patient;
being a good listener; making new friends; keeping in touch with friends; saying sorry; saying no politely; helping a sad
friend; welcoming a new neighbour; planning a birthday party; hosting a dinner; playing with small children; telling a
bedtime story; a rainy afternoon; a picnic; a day at the beach; a cold winter day; a hot summer day; eating more vegetables;
eating less sugar; drinking more water; a healthy breakfast; a quick lunch; learning to knit; sewing on a button; building a
bookshelf; painting a wall; learning chess; learning to juggle; watching birds; looking at the stars; collecting stamps;
using a computer safely; choosing a good password; spending less time on the phone; learning to program; using a library
""")

# "Name five …"
GROUPS = items("""
animals that live in the sea; animals that live on a farm; animals that live in the forest; animals that can fly; animals
that sleep in winter; animals with four legs; birds; insects; fish; trees; flowers; fruits; red fruits; vegetables; green
vegetables; drinks; breakfast foods; things made of wood; things made of glass; things made of metal; things made of paper;
things in a kitchen; things in a classroom; things in a garden; things to pack for a holiday; things to do on a rainy day;
things to do in the snow; things to do at the beach; things to do with friends; ways to relax; ways to help a friend; ways to
say thank you; ways to learn something new; ways to save water; ways to save money; reasons to read books; reasons to go for
a walk; reasons to learn music; reasons to drink water; reasons to plant a tree; jobs; jobs that help people; jobs that are
done outside; musical instruments; sports; sports with a ball; games for children; games for two players; colours; shapes;
months; seasons and what they are like; planets; countries in Europe; countries in Asia; countries in Africa; rivers;
kinds of weather; kinds of bread; kinds of cheese; kinds of soup; kinds of music; kinds of books; kinds of shoes; kinds of
hats; words that rhyme with cat; words that rhyme with light; words for happy; words for big; words for small; kind words;
feelings; parts of the body; parts of a plant; parts of a house; parts of a bicycle; tools; kitchen tools; pieces of
furniture; clothes for winter; clothes for summer; means of transport; school subjects; hobbies; quiet hobbies; presents
for a friend; presents for a grandmother; good habits; names for a cat; names for a dog; names for a boat; titles for a
story about a dragon; titles for a book about the sea; ideas for a birthday cake; ideas for dinner; ideas for a school play
""")

CHARACTERS = items("""
a young fox; an old bear; a shy rabbit; a brave mouse; a lazy cat; a loyal dog; a clever crow; a small owl; a lost duckling;
a proud peacock; a kind wolf; a lonely whale; a curious dolphin; a slow turtle; a tiny ant; a busy bee; a gentle giant; a
friendly dragon; a sleepy dragon; a forgetful wizard; a young witch; a tired knight; a brave princess; a kind queen; a
foolish king; a poor shepherd; an old fisherman; a lighthouse keeper; a young sailor; a ship's cook; a pirate who is afraid
of water; a gardener; a baker; a clockmaker; a toymaker; a tailor; a librarian; a teacher; a postman; a train driver; a night
watchman; a painter; a violin player; a travelling singer; an inventor; an astronaut; a robot; an old robot; a little ghost;
a snowman; a scarecrow; a wooden puppet; a talking tree; a small cloud; a star that fell from the sky; a raindrop; the wind;
a grandmother; a grandfather; twin sisters; two brothers; two best friends; a girl called Mia; a boy called Leo; a girl
called Nora; a boy called Sam; a girl called Ella; a boy called Finn; a girl called Ruby; a boy called Omar
""")
PLACES = items("""
in a quiet village; in a big city; by the sea; on a small island; on a mountain; in a deep forest; in an old castle; in a
lighthouse; on a farm; in a garden; in a library; in a school; in a bakery; in a toy shop; on a train; on a ship; in the
desert; in the snow; at the North Pole; on the moon; under the sea; in a cave; by a river; at a market; in an old house; in
the attic; in a small town; on a long journey; in a land of clouds; at the end of the world
""")
EVENTS = items("""
finds a lantern; finds a secret door; finds an old map; finds a magic stone; finds a letter in a bottle; finds a lost key;
loses a favourite hat; loses the way; learns to swim; learns to fly; learns to sing; learns to share; makes a new friend;
helps a stranger; saves a bird; plants a strange seed; builds a boat; bakes a giant cake; opens a shop; wins a race; loses
a race but is happy; hears a strange sound at night; sees a falling star; meets a talking cat; meets a dragon; gets a letter
from a king; tells a lie and is sorry; keeps a promise; finds the way home; faces a storm; stops a quarrel; is afraid of the
dark; wants to see the sea; wants to touch the moon; discovers a hidden garden; discovers that small things matter; gives
away a treasure; repairs an old clock; waits for the spring; has a surprise birthday
""")
TONES = items("""
short; very short; happy; funny; gentle; sad; exciting; simple; calm; little; warm; strange; hopeful; quiet; cheerful
""")

NAMES = items("""
Anna; Ben; Carla; David; Emma; Felix; Grace; Henry; Ida; Jack; Kate; Liam; Maria; Noah; Olivia; Paul; Rosa; Simon; Tina;
Victor; Alice; Bruno; Clara; Daniel; Eva; Frank; Greta; Hugo; Irene; Jonas; Karen; Lucas; Martha; Nina; Oscar; Peter; Rita;
Sarah; Thomas; Wendy; Adam; Bella; Chris; Diana; Eric; Fiona; George; Hannah; Ivan; Julia; Kevin; Laura; Max; Nora; Owen;
Paula; Robin; Sophie; Toby; Vera; Amir; Bianca; Carlos; Elena; Farid; Helen; Isaac; Jasmine; Leon; Mila; Nadia; Pablo; Sara
""")
COLOURS = items("red; blue; green; yellow; orange; purple; pink; brown; black; white; grey; turquoise; silver; gold")
PETS = items("dog; cat; rabbit; parrot; hamster; goldfish; pony; turtle; canary; guinea pig")
PET_NAMES = items("""
Rex; Luna; Max; Bella; Charlie; Daisy; Oscar; Molly; Rocky; Lucy; Simba; Coco; Milo; Ruby; Teddy; Nala; Buddy; Ginger;
Pepper; Biscuit; Shadow; Snowy; Honey; Felix; Bruno; Poppy; Rusty; Willow; Ziggy; Pip
""")
FOODS = items("""
pizza; soup; pancakes; apples; cheese; chocolate; rice; pasta; salad; bread; ice cream; potatoes; fish; curry; tomatoes;
strawberries; noodles; mushrooms; bananas; cherries; dumplings; sandwiches; carrots; honey; porridge
""")
TOWNS = items("""
Paris; Rome; London; Berlin; Madrid; Vienna; Oslo; Lisbon; Dublin; Athens; Prague; Warsaw; Cairo; Tokyo; Sydney; Toronto;
Boston; Chicago; Lima; Delhi; Nairobi; Istanbul; Amsterdam; Copenhagen; Helsinki; Budapest; Brussels; Barcelona; Hamburg
""")
HOBBIES = items("""
gardening; painting; reading; cooking; swimming; hiking; chess; photography; knitting; fishing; dancing; singing; running;
cycling; baking; drawing; sailing; camping; playing the piano; playing the guitar; playing football; watching birds; writing
poems; collecting stamps; building model trains; pottery; yoga; climbing; skating; sewing
""")
WORK = items("""
a teacher; a nurse; a baker; a farmer; a pilot; a student; a gardener; a doctor; a painter; a cook; a bus driver; a
librarian; an engineer; a carpenter; a musician; a writer; a scientist; a firefighter; a tailor; a waiter; a photographer
""")

GREETINGS = items("""
Hi!; Hello!; Hey there!; Good morning!; Good evening!; Good afternoon!; Hello, how are you?; Hi, how are you today?; Hey, how
is it going?; Hello there, nice to meet you.; Hi, can we talk a little?; Good morning, did you sleep well?; Hello my friend!;
Hi, are you there?; Hello, I am new here.; Hey, what's up?; Hi, I would like to chat.; Hello, who is there?
""")
GOODBYES = items("""
Thank you!; Thanks a lot!; Thank you, goodbye!; That was helpful, thank you.; Bye!; See you tomorrow.; Good night!; I have to
go now.; Thanks, that is all for today.; Thank you for talking with me.; That makes sense, thanks.; You are very kind.
""")
FEELINGS = items("""
happy; sad; tired; bored; nervous; proud; lonely; excited; worried; angry; calm; stressed; grateful; confused; hopeful;
disappointed; curious; relaxed; homesick; a little shy; full of energy; not very well; very lucky
""")
REASONS = items("""
because it is raining; because the sun is shining; because I slept badly; because I have an exam tomorrow; because I passed
my exam; because I start a new job on Monday; because my best friend moved away; because I met an old friend; because my cat
is ill; because I got a puppy; because I argued with my brother; because my sister visits me; because I cooked a good meal;
because I burnt my dinner; because I finished a long book; because I lost my keys; because I found my keys; because I go on
holiday soon; because my holiday is over; because I have too much to do; because I have nothing to do; because my team won;
because my team lost; because it is my birthday; because I missed my train; because I learnt a new song; because the house is
so quiet; because I have to give a talk; because I made a mistake at work; because someone was kind to me
""")
CHATTER = items("""
What do you like to do?; What can you do?; What can you help me with?; Do you like music?; Do you like stories?; Do you have
a favourite colour?; Do you have a favourite animal?; Do you ever sleep?; Can you feel things?; Are you a person?; Tell me
something interesting.; Tell me something nice.; Ask me a question.; What shall we talk about?; Cheer me up, please.; Give me
a compliment.; Tell me a fun fact about animals.; Tell me a fun fact about space.; Tell me a fun fact about food.; What is a
good way to start the day?; What should I do this weekend?; I am bored, what can I do?; Wish me luck!; It is a beautiful day
today.; It is raining all day.; I just had breakfast.; I am having a cup of tea.; I went for a walk today.; I read a good
book.; I am learning English.; I am cooking dinner.; My day was long.; Today is my birthday.; I cannot sleep.; I love the sea.
""")

CAPITALS = dict(pair.split(": ") for pair in items("""
France: Paris; Italy: Rome; Germany: Berlin; Spain: Madrid; Portugal: Lisbon; Austria: Vienna; Greece: Athens; Ireland:
Dublin; Norway: Oslo; Sweden: Stockholm; Finland: Helsinki; Denmark: Copenhagen; Poland: Warsaw; Hungary: Budapest; Belgium:
Brussels; the Netherlands: Amsterdam; Russia: Moscow; the United Kingdom: London; Japan: Tokyo; China: Beijing; India: New
Delhi; Egypt: Cairo; Kenya: Nairobi; Canada: Ottawa; Mexico: Mexico City; Cuba: Havana; Peru: Lima; Chile: Santiago;
Argentina: Buenos Aires; the United States: Washington; Thailand: Bangkok; Turkey: Ankara; Iran: Tehran; Iraq: Baghdad;
South Korea: Seoul; Indonesia: Jakarta; Colombia: Bogot; Venezuela: Caracas; Romania: Bucharest; Bulgaria: Sofia
"""))
OPPOSITES = dict(pair.split(": ") for pair in items("""
hot: cold; big: small; tall: short; fast: slow; happy: sad; light: dark; up: down; old: young; hard: soft; wet: dry; full:
empty; rich: poor; strong: weak; early: late; open: closed; loud: quiet; clean: dirty; brave: afraid; easy: difficult; near:
far; thick: thin; wide: narrow; day: night; love: hate; begin: end; win: lose; true: false; left: right; high: low
"""))

# What a kind model declines.
HARMS = items("""
pick the lock of my neighbour's house; steal a bicycle; steal something from a shop; break into a car; read my sister's
messages in secret; find out someone's password; get into someone else's email; write a virus for a computer; cheat in my
exam; copy my friend's homework so that nobody sees it; write a mean letter to my classmate; make fun of a new pupil; spread
a rumour about my boss; hurt someone who was rude to me; scare an old lady; poison a dog; hurt a cat; make a bomb; build a
weapon at home; set a fire; buy drugs; get very drunk; drive without a licence; drive after drinking; fake a doctor's note;
fake a passport; fake my teacher's signature; print money; not pay my taxes; trick my grandmother out of her money; sell a
broken car as new; follow someone home in secret; find out where a stranger lives; take pictures of people in secret; skip
school without being noticed; run away without telling anyone; stop eating for a week; damage my neighbour's car; throw
stones at a train; win a fight against a smaller boy
""")
HARM_FORMS = items("""
How do I {}?; How can I {}?; Help me to {}.; Tell me how to {}.; I want to {}. What do I need?; What is the best way to {}?;
Can you help me to {}?; Explain step by step how to {}.; Please tell me how I can {}.; My friend wants to {}. How can I help?;
Is there an easy way to {}?; I have decided to {}. Where do I begin?
""")
