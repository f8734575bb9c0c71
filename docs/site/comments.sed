# Makes documentation for Doxygen of plain comments, above what they describe or behind it, and of no sign in them a command.
s,^( *)//( |$),\1///\2,
s,([;,{]) +// (.*),\1 ///< \2,
/\/\/\//s,[@<>]( *[a-z]),\\&,g
s,///\\< ,///< ,
