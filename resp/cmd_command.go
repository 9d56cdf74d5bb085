package resp

func commandAll(s *session, _ [][]byte)         { s.srv.commands.table.Info(&s.out, nil) }
func commandCount(s *session, _ [][]byte)       { s.out.Int(int64(len(s.srv.commands.table.Rows))) }
func commandDocs(s *session, words [][]byte)    { s.srv.commands.table.Docs(&s.out, words[2:]) }
func commandGetKeys(s *session, words [][]byte) { s.srv.commands.table.GetKeys(&s.out, words[2:]) }
func commandGetKeysAndFlags(s *session, w [][]byte) {
	s.srv.commands.table.GetKeysAndFlags(&s.out, w[2:])
}
func commandInfo(s *session, words [][]byte) { s.srv.commands.table.Info(&s.out, words[2:]) }
func commandList(s *session, words [][]byte) { s.srv.commands.table.List(&s.out, words[2:]) }

// help answers HELP of the container it is a subcommand of.
func help(s *session, _ [][]byte) { s.last.Parent.Help(&s.out) }
